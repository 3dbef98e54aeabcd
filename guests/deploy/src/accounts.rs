//! The guest's users and groups, as its own files list them: passwd(5), shadow(5), group(5),
//! gshadow(5).

pub(super) mod crypt;
pub(super) mod defaults;
pub(super) mod groups;
pub(super) mod ids;
pub(super) mod pam;
pub(super) mod table;

use diskfs_etc::{group, passwd};

use super::guest::Guest;
use super::stage::Stage;
use diskfs_disk::Result;
use table::Table;

pub(super) const PASSWD: &str = "/etc/passwd";
pub(super) const SHADOW: &str = "/etc/shadow";
pub(super) const GROUP: &str = "/etc/group";
pub(super) const GSHADOW: &str = "/etc/gshadow";

/// The account file of FreeBSD and other BSDs. Its databases can only be created by `pwd_mkdb`.
const MASTER_PASSWD: &str = "/etc/master.passwd";

/// The limit on user names of useradd(8). `LOGIN_NAME_MAX` of Linux is longer.
const NAME_BYTES: usize = 32;

/// The number of seconds in a day, the unit of the dates in shadow(5).
const DAY_SECONDS: i64 = 86400;

/// A line of passwd(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: String,
    pub(super) shell: String,
}

/// Returns the first user of a name, which is the one that getpwnam(3) finds.
pub(super) fn user(stage: &Stage, name: &str) -> Result<Option<User>> {
    let table = Table::read(stage, PASSWD)?;
    let user = table.as_ref().and_then(|table| passwd::user(table, name));
    Ok(user.map(User::from))
}

/// Returns the ID of the first group of a name.
pub(super) fn gid_of(stage: &Stage, name: &str) -> Result<Option<u32>> {
    let table = Table::read(stage, GROUP)?;
    let group = table.as_ref().and_then(|table| group::group(table, name));
    Ok(group.map(|group| group.gid))
}

/// Returns a user of a plan, who must exist.
pub(super) fn known_user(guest: &Guest, name: &str) -> Result<User> {
    let user = well_formed_user(guest, name)?;
    user.ok_or_else(|| guest.invalid(format!("no such user: `{name}`")))
}

/// Returns the user of a name. A malformed line of that name is an error: getpwnam(3) skips such
/// lines, but a change of the line would not.
pub(super) fn well_formed_user(guest: &Guest, name: &str) -> Result<Option<User>> {
    refuse_bsd(guest)?;
    let table = Table::read(&guest.stage, PASSWD)?;
    user_in(guest, table.as_deref(), name)
}

/// Returns the user of a name from a table.
pub(super) fn user_in(
    guest: &Guest,
    passwd: Option<&diskfs_etc::table::Table>,
    name: &str,
) -> Result<Option<User>> {
    let Some(row) = passwd.and_then(|table| table.row(name)) else {
        return Ok(None);
    };
    let broken = || guest.invalid(format!("invalid line of `{name}` in {PASSWD}"));
    let user = passwd::User::of(row).ok_or_else(broken)?;
    Ok(Some(user.into()))
}

/// Returns an error for guests whose users are not only in passwd(5).
pub(super) fn refuse_bsd(guest: &Guest) -> Result<()> {
    if guest.stage.exists(MASTER_PASSWD)? {
        let reason = "changing users in /etc/master.passwd is not supported (the guest is a BSD)";
        return Err(guest.invalid(reason));
    }
    Ok(())
}

/// Returns true for names that useradd(8) accepts: `[a-z_][a-z0-9_-]*[$]?`.
pub(super) fn is_name(name: &str) -> bool {
    let name = if name.len() > NAME_BYTES {
        return false;
    } else {
        name.strip_suffix('$').unwrap_or(name)
    };
    let is_first = |char: char| char.is_ascii_lowercase() || char == '_';
    let is_more = |char: char| is_first(char) || char.is_ascii_digit() || char == '-';
    name.starts_with(is_first) && name.chars().all(is_more)
}

/// Returns true if the text can be a field of passwd(5).
pub(super) fn is_field(text: &str) -> bool {
    !text.contains([':', '\n', '\r', '\0'])
}

/// Returns the current day in days since 1970, the unit of shadow(5).
pub(super) fn today(guest: &Guest) -> i64 {
    guest.now.seconds.div_euclid(DAY_SECONDS)
}

impl From<passwd::User<'_>> for User {
    fn from(user: passwd::User<'_>) -> Self {
        Self {
            name: user.name.to_owned(),
            uid: user.uid,
            gid: user.gid,
            home: user.home.to_owned(),
            shell: user.shell.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_useradd() {
        for name in ["ann", "_apt", "a-b_c1", "host$"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(33);
        for name in [
            "",
            "$",
            "1a",
            "Ann",
            "-a",
            "a:b",
            "a.b",
            "a b",
            "j\u{f6}rg",
            &long,
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
