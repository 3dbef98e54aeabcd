//! `/etc/shadow`, as shadow(5) has it.

use std::collections::HashMap;

use crate::table::Table;

/// The field of the password's hash.
pub const HASH: usize = 1;
/// The field of the day of the last change.
pub const LAST_CHANGE: usize = 2;
/// The number of fields in a row.
pub const FIELDS: usize = 9;

/// Returns the hash of each user. Of several rows with a name the first one counts, as in getspnam(3).
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
