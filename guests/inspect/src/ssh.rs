//! Who is let in by key, and by which keys the guest is known (sshd(8), `sshd_config(5)`).

mod public_key;

use serde::Serialize;

pub use public_key::PublicKey;

use super::accounts::User;
use super::files::{Files, has_extension};
use diskfs_etc::shell::settings;

/// Where the server has its keys.
const DIR: &str = "/etc/ssh";

/// Where keys are that let a user in, unless the server's settings say otherwise.
const AUTHORIZED: &str = ".ssh/authorized_keys .ssh/authorized_keys2";

/// More than anybody has. Each costs a hash.
const MAX_KEYS: usize = 10_000;

/// Files of keys a user, of those that the server's settings name.
const MAX_PATTERNS: usize = 8;

/// The guest's SSH server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ssh {
    /// The keys that the guest is known by.
    pub host_keys: Vec<PublicKey>,
    /// The keys that let users in.
    pub authorized_keys: Vec<AuthorizedKey>,
    /// `PermitRootLogin`, where it is said.
    pub permit_root_login: Option<String>,
    /// `PasswordAuthentication`, where it is said.
    pub password_authentication: Option<String>,
}

/// A key that lets a user in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuthorizedKey {
    /// The user.
    pub user: String,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What limits it, as `no-pty,command="..."`.
    pub options: Option<String>,
    /// The key.
    #[serde(flatten)]
    pub key: PublicKey,
}

/// Reads it.
pub(super) fn of(files: &Files<'_>, users: &[User]) -> Ssh {
    let settings = Settings::read(files);
    let patterns = settings.value("AuthorizedKeysFile");
    let patterns = patterns.unwrap_or_else(|| AUTHORIZED.to_owned());
    let mut authorized_keys = Vec::new();
    for user in users {
        for pattern in patterns.split_whitespace().take(MAX_PATTERNS) {
            let path = keys_file(pattern, user);
            let room = MAX_KEYS.saturating_sub(authorized_keys.len());
            authorized_keys.extend(authorized(files, user, &path).into_iter().take(room));
        }
    }
    Ssh {
        host_keys: host_keys(files),
        authorized_keys,
        permit_root_login: settings.value("PermitRootLogin"),
        password_authentication: settings.value("PasswordAuthentication"),
    }
}

fn host_keys(files: &Files<'_>) -> Vec<PublicKey> {
    let names = files.names(DIR);
    let is_one = |name: &&String| name.starts_with("ssh_host_") && name.ends_with("_key.pub");
    let key = |name: &String| {
        let path = format!("{DIR}/{name}");
        let key = PublicKey::parse(files.text(&path)?.trim());
        match &key {
            Some(_) => files.came_from("ssh", &path, Some(1)),
            None => files.complain(&path, "it holds no public key"),
        }
        key
    };
    names.iter().filter(is_one).filter_map(key).collect()
}

/// A pattern of `AuthorizedKeysFile`: `%h` is the home directory, `%u` the name, and what is no path from the root is
/// one from the home directory.
fn keys_file(pattern: &str, user: &User) -> String {
    let path = pattern
        .replace("%h", &user.home)
        .replace("%u", &user.name)
        .replace("%U", &user.uid.to_string())
        .replace("%%", "%");
    if path.starts_with('/') {
        path
    } else {
        format!("{}/{path}", user.home.trim_end_matches('/'))
    }
}

fn authorized(files: &Files<'_>, user: &User, path: &str) -> Vec<AuthorizedKey> {
    // Homes that don't exist, as `/nonexistent`, are common.
    let Some(text) = files.text(path) else {
        return Vec::new();
    };
    let key = |(line, text): (usize, &str)| {
        let (options, key) = public_key::with_options(text)?;
        Some(AuthorizedKey {
            user: user.name.clone(),
            file: path.to_owned(),
            line,
            options: options.map(str::to_owned),
            key,
        })
    };
    let keys: Vec<_> = settings(&text).filter_map(key).take(MAX_KEYS).collect();
    if let Some(first) = keys.first() {
        files.came_from("ssh", path, Some(first.line));
    }
    keys
}

/// The server's settings, as far as they are for everybody: what stands behind the first `Match` is not.
struct Settings(Vec<(String, String)>);

impl Settings {
    fn read(files: &Files<'_>) -> Self {
        let mut all = Vec::new();
        let main = format!("{DIR}/sshd_config");
        let Some(text) = files.text(&main) else {
            return Self(all);
        };
        for (word, value) in lines(&text) {
            if !word.eq_ignore_ascii_case("include") {
                all.push((word.to_owned(), value.to_owned()));
                continue;
            }
            // The one that distributions have; files of others are not followed.
            if value.trim_end_matches("*.conf") == format!("{DIR}/sshd_config.d/") {
                let dir = format!("{DIR}/sshd_config.d");
                let names = files.names(&dir);
                for name in names.iter().filter(|name| has_extension(name, "conf")) {
                    let text = files.text(&format!("{dir}/{name}")).unwrap_or_default();
                    let included = lines(&text);
                    all.extend(included.map(|(word, value)| (word.to_owned(), value.to_owned())));
                }
            }
        }
        Self(all)
    }

    /// The first one counts.
    fn value(&self, word: &str) -> Option<String> {
        let mut all = self.0.iter();
        let found = all.find(|(found, _)| found.eq_ignore_ascii_case(word));
        found.map(|(_, value)| value.clone())
    }
}

/// Words and values, up to the first `Match`.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = settings(text).filter_map(|(_, line)| {
        line.split_once(|c: char| c.is_whitespace() || c == '=')
            .map(|(word, value)| (word, value.trim().trim_matches('"')))
    });
    words.take_while(|(word, _)| !word.eq_ignore_ascii_case("match"))
}

#[cfg(test)]
mod tests {
    use super::super::accounts;
    use super::super::testing::guest;
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKtP8K7N0rDmyUdmzQbxRVFvOlEQ3kYT8oN3t0YbYB0t";

    #[test]
    fn keys_of_users_and_of_the_host() {
        let tree = guest(&[
            (
                "/etc/passwd",
                "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
            ),
            (
                "/etc/ssh/ssh_host_ed25519_key.pub",
                &format!("{KEY} root@h\n"),
            ),
            ("/etc/ssh/ssh_host_rsa_key.pub", "nonsense\n"),
            (
                "/etc/ssh/sshd_config",
                "Include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin yes\nPasswordAuthentication no\nMatch User x\nPermitRootLogin x\n",
            ),
            ("/etc/ssh/sshd_config.d/a.conf", "PermitRootLogin no\n"),
            (
                "/home/ann/.ssh/authorized_keys",
                &format!("# c\n\nno-pty,command=\"a b\" {KEY} ann@x y\nssh-rsa broken\n{KEY}\n"),
            ),
        ]);
        let files = Files::new(&tree);
        let found = of(&files, &accounts::users(&files));
        assert_eq!(found.host_keys.len(), 1);
        assert_eq!(found.host_keys[0].comment.as_deref(), Some("root@h"));
        let [first, second] = &found.authorized_keys[..] else {
            panic!("{found:?}")
        };
        assert_eq!((&*first.user, first.line, second.line), ("ann", 3, 5));
        assert_eq!(first.options.as_deref(), Some("no-pty,command=\"a b\""));
        assert_eq!(first.key.comment.as_deref(), Some("ann@x y"));
        assert_eq!(first.key.fingerprint, second.key.fingerprint);
        assert_eq!(found.permit_root_login.as_deref(), Some("no"));
        assert_eq!(found.password_authentication.as_deref(), Some("no"));
        assert_eq!(files.finish().1.len(), 1);
    }
}
