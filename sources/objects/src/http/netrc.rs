//! `.netrc` files, as curl reads them. The crates for them are not maintained.

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Returns the login for a host: of its entry, or of the entry `default`.
pub(super) fn find(text: &str, host: &str) -> Option<Login> {
    let mut words = text.lines().flat_map(words_of);
    let mut is_for_host = false;
    let mut login = Login {
        user: String::new(),
        password: String::new(),
    };
    while let Some(word) = words.next() {
        match word {
            "machine" | "default" if is_for_host => break,
            "machine" => is_for_host = words.next()? == host,
            "default" => is_for_host = true,
            "login" if is_for_host => words.next()?.clone_into(&mut login.user),
            "password" if is_for_host => words.next()?.clone_into(&mut login.password),
            "login" | "password" | "account" | "macdef" => drop(words.next()?),
            _ => {}
        }
    }
    is_for_host.then_some(login)
}

/// Returns the words of a line without its comment.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_start();
    let line = if line.starts_with('#') { "" } else { line };
    line.split_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_the_host_counts() {
        let text = "# machine a.org login no password no\nmachine b.org login u password p\n\
                    machine a.org\n  login me\n  password s#cret\nmachine c.org login x password y\n";
        let login = |user: &str, password: &str| {
            Some(Login {
                user: user.into(),
                password: password.into(),
            })
        };
        assert_eq!(find(text, "a.org"), login("me", "s#cret"));
        assert_eq!(find(text, "b.org"), login("u", "p"));
        assert_eq!(find(text, "d.org"), None);
        let with_default = format!("{text}default login any password thing");
        assert_eq!(find(&with_default, "d.org"), login("any", "thing"));
        assert_eq!(find("machine", "a.org"), None);
    }
}
