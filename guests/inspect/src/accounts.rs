//! User accounts and groups: passwd(5), shadow(5) and group(5).

use diskfs_etc::table::{Row, Table};
use diskfs_etc::{group, passwd, shadow};
use serde::Serialize;

use super::files::Files;

/// The size limit of these files: 8 MiB hold 100,000 users.
const LIMIT_BYTES: u64 = 8 << 20;

const PASSWD: &str = "/etc/passwd";
const SHADOW: &str = "/etc/shadow";
const GROUP: &str = "/etc/group";

/// A user account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct User {
    /// The user name.
    pub name: String,
    /// The user ID.
    pub uid: u32,
    /// The ID of the primary group.
    pub gid: u32,
    /// The comment field (GECOS), for example `Full Name,Room,...`.
    pub comment: String,
    /// The home directory.
    pub home: String,
    /// The login shell.
    pub shell: String,
    /// The state of the password; `null` if it is unknown.
    pub password: Option<Password>,
}

/// The state of a user's password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Password {
    /// A password is set.
    Set,
    /// The password is empty: login does not ask for one.
    Empty,
    /// Login with a password is refused; login with keys may be possible.
    Locked,
}

impl Password {
    /// Returns the state from the second field of shadow(5).
    fn of(field: &str) -> Self {
        match field {
            "" => Self::Empty,
            _ if field.starts_with(['!', '*']) => Self::Locked,
            _ => Self::Set,
        }
    }
}

/// A group of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Group {
    /// The group name.
    pub name: String,
    /// The group ID.
    pub gid: u32,
    /// The members, without the users whose primary group it is.
    pub members: Vec<String>,
}

/// Returns all users, in the order of the file.
pub(super) fn users(files: &Files<'_>) -> Vec<User> {
    let Some(table) = table(files, PASSWD) else {
        return Vec::new();
    };
    files.add_source("users", PASSWD, None);
    let shadow = self::table(files, SHADOW);
    if shadow.is_some() {
        files.add_source("users", SHADOW, None);
    }
    let shadow = shadow.unwrap_or_default();
    let hashes = shadow::hashes(&shadow);
    entries(files, PASSWD, &table, |row| {
        let user = passwd::User::of(row)?;
        Some(User {
            name: user.name.to_owned(),
            uid: user.uid,
            gid: user.gid,
            comment: user.comment.to_owned(),
            home: user.home.to_owned(),
            shell: user.shell.to_owned(),
            password: match user.password {
                "x" => hashes.get(user.name).map(|hash| Password::of(hash)),
                hash => Some(Password::of(hash)),
            },
        })
    })
}

/// Returns all groups, in the order of the file.
pub(super) fn groups(files: &Files<'_>) -> Vec<Group> {
    let Some(table) = table(files, GROUP) else {
        return Vec::new();
    };
    files.add_source("groups", GROUP, None);
    entries(files, GROUP, &table, |row| {
        let group = group::Group::of(row)?;
        Some(Group {
            name: group.name.to_owned(),
            gid: group.gid,
            members: group.members().map(str::to_owned).collect(),
        })
    })
}

fn table(files: &Files<'_>, path: &str) -> Option<Table> {
    let bytes = files.bytes(path, LIMIT_BYTES)?;
    Some(Table::new(String::from_utf8_lossy(&bytes)))
}

/// Parses the rows of a table. Invalid rows are reported as one problem.
fn entries<T>(
    files: &Files<'_>,
    path: &str,
    table: &Table,
    parse: impl Fn(Row<'_>) -> Option<T>,
) -> Vec<T> {
    let mut entries = Vec::new();
    let mut wrong = Vec::new();
    for row in table.rows().filter(|row| !row.is_nis()) {
        match parse(row) {
            Some(entry) => entries.push(entry),
            None => wrong.push(row.line),
        }
    }
    if let Some(first) = wrong.first() {
        let count = wrong.len();
        files.add_problem(
            path,
            format!("invalid lines: {count}, the first is line {first}"),
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
                "root:x:0:0:root:/root:/bin/bash\nnobody:*:65534:65534::/:/sbin/nologin\n# c\nguest::1:1:::\n new:x:2:2\nbad line\n+::::::\nlocked:x:3:3:::\n",
            ),
            (
                SHADOW,
                "root:$y$j9T$x:1::::::\nlocked:!$6$x:1::::::\nlocked:$6$x:1::::::\n",
            ),
            (GROUP, "wheel:x:10:root,new\nshort:x:11\n"),
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
            problems[0].reason.contains("the first is line 6"),
            "{problems:?}"
        );
    }
}
