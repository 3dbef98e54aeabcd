//! `/etc/gshadow` in the format of gshadow(5). The members are in the same field as in
//! [`group`](crate::group).

use crate::table::Table;

/// Adds a group that cannot be joined with a password.
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
