//! `/etc/passwd` in the format of passwd(5), parsed as by glibc.

use crate::table::{Row, Table};

/// The index of the field with the password.
pub const PASSWORD: usize = 1;
/// The index of the field with the user ID.
pub const UID: usize = 2;
/// The index of the field with the ID of the primary group.
pub const GID: usize = 3;
/// The index of the field with the comment, such as `Full Name,Room,...`.
pub const COMMENT: usize = 4;
/// The index of the field with the home directory.
pub const HOME: usize = 5;
/// The index of the field with the shell.
pub const SHELL: usize = 6;

/// A row of passwd(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User<'a> {
    /// The login name.
    pub name: &'a str,
    /// The password hash, or `x` if the hash is in shadow(5).
    pub password: &'a str,
    /// The user ID.
    pub uid: u32,
    /// The ID of the primary group.
    pub gid: u32,
    /// The comment, such as `Full Name,Room,...`.
    pub comment: &'a str,
    /// The home directory.
    pub home: &'a str,
    /// The login shell.
    pub shell: &'a str,
}

impl<'a> User<'a> {
    /// Parses a row. Returns `None` for a row of NIS, and for a row whose user ID or group ID is
    /// missing or invalid, which getpwnam(3) skips. All other fields may be missing.
    pub fn of(row: Row<'a>) -> Option<Self> {
        if row.is_nis() {
            return None;
        }
        Some(Self {
            name: row.name(),
            password: row.field(PASSWORD),
            uid: row.number(UID)?,
            gid: row.number(GID)?,
            comment: row.field(COMMENT),
            home: row.field(HOME),
            shell: row.rest(SHELL),
        })
    }
}

/// Returns the users, in their order.
pub fn users(table: &Table) -> impl Iterator<Item = User<'_>> {
    table.rows().filter_map(User::of)
}

/// Returns the first user of a name, which is the one that getpwnam(3) finds.
pub fn user<'a>(table: &'a Table, name: &str) -> Option<User<'a>> {
    users(table).find(|user| user.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_missing_and_numbers_may_not() {
        let text = "root:x:0:0:root:/root:/bin/sh:x\n short:x: 5:6\nbad:x::1:::\n+nis:x:1:1:::\n#c:x:1:1:::\n:x:7:7\n";
        let table = Table::new(text);
        let shown: Vec<_> = users(&table)
            .map(|user| (user.name, user.uid, user.shell))
            .collect();
        assert_eq!(
            shown,
            [("root", 0, "/bin/sh:x"), ("short", 5, ""), ("", 7, "")]
        );
        assert_eq!(user(&table, "bad"), None);
    }
}
