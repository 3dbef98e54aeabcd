//! `/etc/gshadow`, as gshadow(5) has it. Its members are in the same field as those of [`group`](crate::group).

use crate::table::Table;

/// Adds a group that nobody joins by a password.
pub fn add(table: &mut Table, name: &str) {
    table.add(&[name, "!", "", ""]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::add_member;

    #[test]
    fn groups_and_members() {
        let mut table = Table::new("a:!::\n");
        add(&mut table, "b");
        add_member(&mut table, "b", "ann");
        assert_eq!(table.text(), "a:!::\nb:!::ann\n");
    }
}
