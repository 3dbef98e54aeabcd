//! `/etc/group` in the format of group(5), parsed as by glibc.

use crate::table::{Row, Table};

/// The index of the field with the group ID.
pub const GID: usize = 2;
/// The index of the field with the members, in group(5) and in gshadow(5).
pub const MEMBERS: usize = 3;

/// A row of group(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group<'a> {
    /// The name of the group.
    pub name: &'a str,
    /// The group ID.
    pub gid: u32,
    members: &'a str,
}

impl<'a> Group<'a> {
    /// Parses a row. Returns `None` for a row of NIS, and for a row whose group ID is missing or
    /// invalid, which getgrnam(3) skips.
    pub fn of(row: Row<'a>) -> Option<Self> {
        if row.is_nis() {
            return None;
        }
        Some(Self {
            name: row.name(),
            gid: row.number(GID)?,
            members: row.rest(MEMBERS),
        })
    }

    /// Returns the names of the members.
    pub fn members(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        members(self.members)
    }
}

/// Returns the groups, in their order.
pub fn groups(table: &Table) -> impl Iterator<Item = Group<'_>> {
    table.rows().filter_map(Group::of)
}

/// Returns the first group of a name, which is the one that getgrnam(3) finds.
pub fn group<'a>(table: &'a Table, name: &str) -> Option<Group<'a>> {
    groups(table).find(|group| group.name == name)
}

/// Adds a user to a group. Does nothing if the user already is a member, or if the group does not
/// exist.
pub fn add_member(table: &mut Table, group: &str, user: &str) {
    let Some(row) = table.row(group) else {
        return;
    };
    if members(row.field(MEMBERS)).any(|member| member == user) {
        return;
    }
    let with = match row.field(MEMBERS) {
        "" => user.to_owned(),
        others => format!("{others},{user}"),
    };
    table.set(group, MEMBERS, &with);
}

/// Removes a user from the members of all groups.
pub fn remove_member(table: &mut Table, user: &str) {
    table.set_each(|row| {
        let all = row.field(MEMBERS);
        if !members(all).any(|member| member == user) {
            return None;
        }
        let others: Vec<_> = members(all).filter(|member| *member != user).collect();
        Some((MEMBERS, others.join(",")))
    });
}

/// Returns the members in a field. Like glibc, it skips blanks before a member, and members without
/// a name.
fn members(field: &str) -> impl Iterator<Item = &str> {
    let members = field.split(',').map(str::trim_ascii_start);
    members.filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_and_go() {
        let mut table = Table::new("a:x:1\nb:x:2:ann, bob,\nc:x:3:ann\n");
        let b = group(&table, "b").unwrap();
        assert_eq!(b.members().collect::<Vec<_>>(), ["ann", "bob"]);
        add_member(&mut table, "a", "ann");
        add_member(&mut table, "b", "bob");
        add_member(&mut table, "c", "bob");
        assert_eq!(table.text(), "a:x:1:ann\nb:x:2:ann, bob,\nc:x:3:ann,bob\n");
        remove_member(&mut table, "ann");
        assert_eq!(table.text(), "a:x:1:\nb:x:2:bob\nc:x:3:bob\n");
    }
}
