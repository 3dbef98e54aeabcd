//! `/etc/shadow` in the format of shadow(5).

use std::collections::HashMap;

use crate::table::Table;

/// The index of the field with the password hash.
pub const HASH: usize = 1;
/// The index of the field with the day of the last change.
pub const LAST_CHANGE: usize = 2;
/// The index of the field with the number of days after which the password must be changed.
pub const MAX_AGE: usize = 4;
/// The index of the field with the number of days for which an expired password is accepted.
pub const INACTIVE: usize = 6;
/// The index of the field with the day on which the account expires.
pub const EXPIRE: usize = 7;
/// The number of fields in a row.
pub const FIELDS: usize = 9;

/// Returns the hash of each user. If several rows have the same name, the first one counts, as in
/// getspnam(3).
pub fn hashes(table: &Table) -> HashMap<&str, &str> {
    let mut hashes = HashMap::new();
    for row in table.rows() {
        hashes.entry(row.name()).or_insert_with(|| row.field(HASH));
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_counts() {
        let table = Table::new("a:!x:1::::::\na::1::::::\n");
        assert_eq!(hashes(&table)["a"], "!x");
    }
}
