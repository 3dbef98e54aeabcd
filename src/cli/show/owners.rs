//! Names of users and groups, out of the guest's own `/etc/passwd` and `/etc/group`.

use std::cell::OnceCell;
use std::collections::HashMap;

use diskfs::Filesystem;

/// More than that is no file of users: 8 MiB hold 100,000 of them.
const LIMIT_BYTES: u64 = 8 << 20;

/// Reads each file when the first name of its kind is asked for.
#[derive(Debug)]
pub(crate) struct Owners<'a> {
    filesystem: &'a Filesystem,
    numeric: Numeric,
    users: OnceCell<HashMap<u32, String>>,
    groups: OnceCell<HashMap<u32, String>>,
}

/// What a guest knows of one of its users.
#[cfg(feature = "microvm")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Besides that one.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
    pub(crate) shell: String,
}

/// Whether numbers are wanted.
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
            users: OnceCell::new(),
            groups: OnceCell::new(),
        }
    }

    /// The user's name, or the number where the guest has none for it.
    pub(crate) fn user(&self, uid: u32) -> String {
        self.name(&self.users, "/etc/passwd", uid)
            .unwrap_or_else(|| uid.to_string())
    }

    /// The group's name, or the number.
    pub(crate) fn group(&self, gid: u32) -> String {
        self.name(&self.groups, "/etc/group", gid)
            .unwrap_or_else(|| gid.to_string())
    }

    /// The user's name, where the guest has one for it.
    pub(crate) fn user_name(&self, uid: u32) -> Option<String> {
        self.name(&self.users, "/etc/passwd", uid)
    }

    /// The group's name, where the guest has one for it.
    pub(crate) fn group_name(&self, gid: u32) -> Option<String> {
        self.name(&self.groups, "/etc/group", gid)
    }

    /// The number of a user by name; a number stands for itself.
    pub(crate) fn uid(&self, name: &str) -> Option<u32> {
        self.number(&self.users, "/etc/passwd", name)
    }

    /// The number of a group by name; a number stands for itself.
    pub(crate) fn gid(&self, name: &str) -> Option<u32> {
        self.number(&self.groups, "/etc/group", name)
    }

    /// The group that a user, by name or number, has from the start: the fourth field of passwd(5).
    pub(crate) fn login_gid(&self, user: &str) -> Option<u32> {
        self.passwd_line(user)?.get(3)?.parse().ok()
    }

    /// The fields of a user's line in passwd(5): the one with that name, or else that number.
    fn passwd_line(&self, user: &str) -> Option<Vec<String>> {
        let text = self.filesystem.read_at_most("/etc/passwd", LIMIT_BYTES);
        let text = String::from_utf8_lossy(&text.ok()?).into_owned();
        let uid = self.uid(user)?.to_string();
        let line = |field: usize, wanted: &str| {
            let mut lines = text.lines().map(|line| line.split(':'));
            let found = lines.find(|fields| fields.clone().nth(field) == Some(wanted));
            Some(found?.map(str::to_owned).collect())
        };
        line(0, user).or_else(|| line(2, &uid))
    }

    /// What passwd(5) says of a user by name or number, and the groups besides.
    #[cfg(feature = "microvm")]
    pub(crate) fn login(&self, user: &str) -> Option<Login> {
        let line = self.passwd_line(user)?;
        let [name, _, uid, gid, _, home, shell, ..] = &*line else {
            return None;
        };
        Some(Login {
            name: name.clone(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            groups: self.groups_of(name),
            home: home.clone(),
            shell: shell.clone(),
        })
    }

    /// The groups that group(5) lists a user in.
    #[cfg(feature = "microvm")]
    fn groups_of(&self, user: &str) -> Vec<u32> {
        let text = self.filesystem.read_at_most("/etc/group", LIMIT_BYTES);
        let text = text.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let groups = text.lines().filter_map(|line| {
            let mut fields = line.split(':').skip(2);
            let gid = fields.next()?.parse().ok()?;
            fields
                .next()?
                .split(',')
                .any(|name| name == user)
                .then_some(gid)
        });
        groups.collect()
    }

    fn number(&self, cell: &OnceCell<HashMap<u32, String>>, path: &str, name: &str) -> Option<u32> {
        let names = self.names(cell, path);
        let mut found: Vec<u32> = names
            .iter()
            .filter(|(_, n)| *n == name)
            .map(|(id, _)| *id)
            .collect();
        found.sort_unstable(); // Two numbers with one name: the lower one, always.
        found.first().copied().or_else(|| name.parse().ok())
    }

    fn name(&self, cell: &OnceCell<HashMap<u32, String>>, path: &str, id: u32) -> Option<String> {
        if self.numeric == Numeric::Yes {
            return None;
        }
        self.names(cell, path).get(&id).cloned()
    }

    fn names<'c>(
        &self,
        cell: &'c OnceCell<HashMap<u32, String>>,
        path: &str,
    ) -> &'c HashMap<u32, String> {
        // Without a readable file there are numbers, as in a chroot without one.
        let read = || {
            parse(
                &self
                    .filesystem
                    .read_at_most(path, LIMIT_BYTES)
                    .unwrap_or_default(),
            )
        };
        cell.get_or_init(read)
    }
}

/// passwd(5) and group(5): the name first, the number third. The first line with a number wins, as
/// in getpwuid(3). Names that could not be shown as they are don't count.
fn parse(text: &[u8]) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b':').map(std::str::from_utf8);
        let (name, number) = (fields.next(), fields.nth(1));
        if let (Some(Ok(name)), Some(Ok(number))) = (name, number)
            && let Ok(number) = number.parse()
            && !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_-.$+@\\".contains(c))
        {
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
        let names = parse(b"root:x:0:0:::\ntoor:x:0::\n\nx\nbad\x1b:x:1:\nnobody:x:65534:::\n");
        assert_eq!(names[&0], "root");
        assert_eq!(names[&65534], "nobody");
        assert_eq!(names.len(), 2);
    }
}
