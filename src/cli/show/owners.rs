//! Names of users and groups from the guest's own `/etc/passwd` and `/etc/group`.

use std::cell::OnceCell;
use std::collections::HashMap;

use diskfs::Filesystem;
use diskfs_etc::table::Table;
use diskfs_etc::{group, passwd, text};

/// The maximum size of these files, enough for 100,000 users.
const LIMIT_BYTES: u64 = 8 << 20;

/// The guest's names of users and groups. Each file is read when its first name is needed.
#[derive(Debug)]
pub(crate) struct Owners<'a> {
    filesystem: &'a Filesystem,
    numeric: Numeric,
    passwd: OnceCell<Table>,
    group: OnceCell<Table>,
    users: OnceCell<HashMap<u32, String>>,
    groups: OnceCell<HashMap<u32, String>>,
}

/// A user's login data in the guest.
#[cfg(feature = "microvm")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The groups besides the login group.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
    pub(crate) shell: String,
}

/// The choice between numbers and names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numeric {
    No,
    Yes,
}

impl<'a> Owners<'a> {
    pub(crate) fn new(filesystem: &'a Filesystem, numeric: Numeric) -> Self {
        Self {
            filesystem,
            numeric,
            passwd: OnceCell::new(),
            group: OnceCell::new(),
            users: OnceCell::new(),
            groups: OnceCell::new(),
        }
    }

    /// Returns the user's name, or the number if the guest has no name for it.
    pub(crate) fn user(&self, uid: u32) -> String {
        self.user_name(uid).unwrap_or_else(|| uid.to_string())
    }

    /// Returns the group's name, or the number if the guest has no name for it.
    pub(crate) fn group(&self, gid: u32) -> String {
        self.group_name(gid).unwrap_or_else(|| gid.to_string())
    }

    /// Returns the user's name, if the guest has one for the number.
    pub(crate) fn user_name(&self, uid: u32) -> Option<String> {
        let users = || passwd::users(self.passwd()).map(|user| (user.uid, user.name));
        self.name(&self.users, users, uid)
    }

    /// Returns the group's name, if the guest has one for the number.
    pub(crate) fn group_name(&self, gid: u32) -> Option<String> {
        let groups = || group::groups(self.groups()).map(|group| (group.gid, group.name));
        self.name(&self.groups, groups, gid)
    }

    /// Returns the number of a user by name; a number stands for itself.
    pub(crate) fn uid(&self, name: &str) -> Option<u32> {
        let user = passwd::user(self.passwd(), name);
        user.map(|user| user.uid).or_else(|| name.parse().ok())
    }

    /// Returns the number of a group by name; a number stands for itself.
    pub(crate) fn gid(&self, name: &str) -> Option<u32> {
        let group = group::group(self.groups(), name);
        group.map(|group| group.gid).or_else(|| name.parse().ok())
    }

    /// Returns the login group of a user, by name or number: the fourth field of passwd(5).
    pub(crate) fn login_gid(&self, user: &str) -> Option<u32> {
        Some(self.entry(user)?.gid)
    }

    /// Returns the passwd(5) entry of a user by name, else by number.
    fn entry(&self, user: &str) -> Option<passwd::User<'_>> {
        let table = self.passwd();
        passwd::user(table, user).or_else(|| {
            let uid: u32 = user.parse().ok()?;
            passwd::users(table).find(|user| user.uid == uid)
        })
    }

    /// Returns the passwd(5) data of a user by name or number, with the user's other groups.
    #[cfg(feature = "microvm")]
    pub(crate) fn login(&self, user: &str) -> Option<Login> {
        let user = self.entry(user)?;
        let groups = group::groups(self.groups());
        let groups = groups.filter(|group| group.members().any(|name| name == user.name));
        Some(Login {
            name: user.name.to_owned(),
            uid: user.uid,
            gid: user.gid,
            groups: groups.map(|group| group.gid).collect(),
            home: user.home.to_owned(),
            shell: user.shell.to_owned(),
        })
    }

    fn passwd(&self) -> &Table {
        self.passwd.get_or_init(|| self.read("/etc/passwd"))
    }

    fn groups(&self) -> &Table {
        self.group.get_or_init(|| self.read("/etc/group"))
    }

    /// Reads a file. If it cannot be read, there are only numbers, as in a chroot without it.
    fn read(&self, path: &str) -> Table {
        let bytes = self.filesystem.read_at_most(path, LIMIT_BYTES);
        Table::new(text::decode(&bytes.unwrap_or_default()))
    }

    fn name<'t, I: Iterator<Item = (u32, &'t str)>>(
        &self,
        cell: &OnceCell<HashMap<u32, String>>,
        all: impl FnOnce() -> I,
        id: u32,
    ) -> Option<String> {
        if self.numeric == Numeric::Yes {
            return None;
        }
        cell.get_or_init(|| names(all())).get(&id).cloned()
    }
}

/// Returns the names by number. The first entry with a number wins, as in getpwuid(3). Names with
/// characters that would need escaping are skipped.
fn names<'t>(all: impl Iterator<Item = (u32, &'t str)>) -> HashMap<u32, String> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-.$+@\\".contains(c);
    let mut names = HashMap::new();
    for (number, name) in all {
        if !name.is_empty() && name.chars().all(is_plain) {
            names.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_wins_and_bad_lines_do_no_harm() {
        let text = "root:x:0:0:::\ntoor:x:0:0::\n\nx\nbad\x1b:x:1:1\nnobody:x:65534:65534:::\n";
        let table = Table::new(text);
        let names = names(passwd::users(&table).map(|user| (user.uid, user.name)));
        assert_eq!(names[&0], "root");
        assert_eq!(names[&65534], "nobody");
        assert_eq!(names.len(), 2);
    }
}
