//! The guest's users and groups, as its own files list them: passwd(5), shadow(5), group(5), gshadow(5).

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

/// Where FreeBSD and the other BSDs have their users, with databases beside that only `pwd_mkdb` makes.
const MASTER_PASSWD: &str = "/etc/master.passwd";

/// As useradd(8) has it; `LOGIN_NAME_MAX` of Linux would be longer.
const NAME_BYTES: usize = 32;

/// One day of the times in shadow(5).
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

/// The first user of that name: the one that getpwnam(3) finds.
pub(super) fn user(stage: &Stage, name: &str) -> Result<Option<User>> {
    let table = Table::read(stage, PASSWD)?;
    let user = table.as_ref().and_then(|table| passwd::user(table, name));
    Ok(user.map(User::from))
}

/// The number of the first group of that name.
pub(super) fn gid_of(stage: &Stage, name: &str) -> Result<Option<u32>> {
    let table = Table::read(stage, GROUP)?;
    let group = table.as_ref().and_then(|table| group::group(table, name));
    Ok(group.map(|group| group.gid))
}

/// A user that a plan names, who must be there.
pub(super) fn known_user(guest: &Guest, name: &str) -> Result<User> {
    let user = whole_user(guest, name)?;
    user.ok_or_else(|| guest.invalid(format!("the guest has no user `{name}`")))
}

/// The user of that name, with an error where lines of that name can't all be read: getpwnam(3) skips those, and what
/// changes a line would not.
pub(super) fn whole_user(guest: &Guest, name: &str) -> Result<Option<User>> {
    refuse_bsd(guest)?;
    let table = Table::read(&guest.stage, PASSWD)?;
    user_in(guest, table.as_deref(), name)
}

/// The same in a table that is read already.
pub(super) fn user_in(
    guest: &Guest,
    passwd: Option<&diskfs_etc::table::Table>,
    name: &str,
) -> Result<Option<User>> {
    let Some(row) = passwd.and_then(|table| table.row(name)) else {
        return Ok(None);
    };
    let broken = || guest.invalid(format!("{PASSWD} has a broken line of `{name}`"));
    let user = passwd::User::of(row).ok_or_else(broken)?;
    Ok(Some(user.into()))
}

/// An error for guests whose users are not in passwd(5) alone.
pub(super) fn refuse_bsd(guest: &Guest) -> Result<()> {
    if guest.stage.exists(MASTER_PASSWD)? {
        let reason =
            "the guest has its users in /etc/master.passwd, as BSDs do, which is not written";
        return Err(guest.invalid(reason));
    }
    Ok(())
}

/// Whether useradd(8) takes it as a name: `[a-z_][a-z0-9_-]*[$]?`.
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

/// Whether it can be a field of passwd(5).
pub(super) fn is_field(text: &str) -> bool {
    !text.contains([':', '\n', '\r', '\0'])
}

/// Today, in days since 1970, as shadow(5) counts them.
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
