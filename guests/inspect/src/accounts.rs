//! Who can log in: passwd(5), shadow(5) and group(5).

use std::collections::HashMap;

use serde::Serialize;

use super::files::Files;

/// 8 MiB hold 100,000 of them.
const LIMIT_BYTES: u64 = 8 << 20;

const PASSWD: &str = "/etc/passwd";
const SHADOW: &str = "/etc/shadow";
const GROUP: &str = "/etc/group";

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct User {
    /// The name.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The number of the first group.
    pub gid: u32,
    /// What else is said of it, as `Full Name,Room,...`.
    pub comment: String,
    /// The home directory.
    pub home: String,
    /// The program that a login starts.
    pub shell: String,
    /// Whether a password lets it in; `None` where nobody says.
    pub password: Option<Password>,
}

/// Whether a password lets a user in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Password {
    /// There is one.
    Set,
    /// None is asked for.
    Empty,
    /// No password lets it in; keys may.
    Locked,
}

impl Password {
    /// By the second field of shadow(5).
    fn of(field: &str) -> Self {
        match field {
            "" => Self::Empty,
            _ if field.starts_with(['!', '*']) => Self::Locked,
            _ => Self::Set,
        }
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Group {
    /// The name.
    pub name: String,
    /// The number.
    pub gid: u32,
    /// The users that are in it besides those whose first one it is.
    pub members: Vec<String>,
}

/// All users, in their order.
pub(super) fn users(files: &Files<'_>) -> Vec<User> {
    let Some(passwd) = text(files, PASSWD) else {
        return Vec::new();
    };
    files.came_from("users", PASSWD, None);
    let shadow = text(files, SHADOW);
    if shadow.is_some() {
        files.came_from("users", SHADOW, None);
    }
    let passwords: HashMap<&str, &str> = shadow
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(name_and_second)
        .collect();
    let user = |line: &str| {
        let [name, password, uid, gid, comment, home, shell] = fields(line)?;
        let shadowed = || passwords.get(name).map(|field| Password::of(field));
        Some(User {
            name: name.to_owned(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            comment: comment.to_owned(),
            home: home.to_owned(),
            shell: shell.to_owned(),
            password: match password {
                "x" => shadowed(),
                field => Some(Password::of(field)),
            },
        })
    };
    entries(files, PASSWD, &passwd, user)
}

/// All groups, in their order.
pub(super) fn groups(files: &Files<'_>) -> Vec<Group> {
    let Some(text) = text(files, GROUP) else {
        return Vec::new();
    };
    files.came_from("groups", GROUP, None);
    entries(files, GROUP, &text, |line| {
        let [name, _, gid, members] = fields(line)?;
        let members = members.split(',').filter(|member| !member.is_empty());
        Some(Group {
            name: name.to_owned(),
            gid: gid.parse().ok()?,
            members: members.map(str::to_owned).collect(),
        })
    })
}

fn text(files: &Files<'_>, path: &str) -> Option<String> {
    let bytes = files.bytes(path, LIMIT_BYTES)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn name_and_second(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split(':');
    Some((fields.next()?, fields.next()?))
}

/// The fields of a line that has so many.
fn fields<const N: usize>(line: &str) -> Option<[&str; N]> {
    let fields: Vec<&str> = line.split(':').collect();
    fields.try_into().ok()
}

/// What the lines say; the first one that makes no sense is told.
fn entries<T>(
    files: &Files<'_>,
    path: &str,
    text: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Vec<T> {
    let mut entries = Vec::new();
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // NIS (`+`), comments and empty lines are nobody.
        if line.trim().is_empty() || line.starts_with(['#', '+', '-']) {
            continue;
        }
        match parse(line) {
            Some(entry) => entries.push(entry),
            None => wrong.push(number),
        }
    }
    if let Some(first) = wrong.first() {
        let count = wrong.len();
        files.complain(
            path,
            format!("lines that make no sense: {count}, the first is {first}"),
        );
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn users_and_what_lets_them_in() {
        let filesystem = guest(&[
            (
                PASSWD,
                "root:x:0:0:root:/root:/bin/bash\nnobody:*:65534:65534::/:/sbin/nologin\n# c\nguest::1:1:::\nnew:x:2:2:::/bin/sh\nbad line\n+::::::\nlocked:x:3:3:::\n",
            ),
            (SHADOW, "root:$y$j9T$x:1::::::\nlocked:!$6$x:1::::::\n"),
            (GROUP, "wheel:x:10:root,new\n"),
        ]);
        let files = Files::new(&filesystem);
        let found: Vec<_> = users(&files)
            .into_iter()
            .map(|user| (user.name, user.uid, user.password))
            .collect();
        let expected = [
            ("root", 0, Some(Password::Set)),
            ("nobody", 65534, Some(Password::Locked)),
            ("guest", 1, Some(Password::Empty)),
            ("new", 2, None),
            ("locked", 3, Some(Password::Locked)),
        ];
        assert_eq!(
            found,
            expected.map(|(name, uid, password)| (name.to_owned(), uid, password))
        );
        assert_eq!(groups(&files)[0].members, ["root", "new"]);
        let (_, problems) = files.finish();
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].reason.contains("the first is 6"),
            "{problems:?}"
        );
    }
}
