//! The schema table, whose tree starts at page 1: `type, name, tbl_name, rootpage, sql` (section
//! 2.6).

use diskfs_block::{Error, ErrorKind, Result};

use super::pager::Pager;
use super::record::Record;
use super::table::{Row, Table};

const ROOT: u32 = 1;

/// The maximum number of rows: more than rpm's schema has, which is about thirty tables with an
/// index or two each.
const MAX_ROWS: usize = 1000;

/// Returns the root page of a table.
///
/// # Errors
/// `NotFound` if there is no such table; `Corrupt`; the errors of the device.
pub(super) fn root_of(name: &str, pager: &mut Pager<'_>) -> Result<u32> {
    let mut schema = Table::at(ROOT);
    for _ in 0..MAX_ROWS {
        let Some(row) = schema.next(pager) else {
            break;
        };
        if let Some(root) = root_in(name, &row?, pager)? {
            return Ok(root);
        }
    }
    let reason = format!("no such table: `{name}`");
    Err(Error::new(ErrorKind::NotFound, reason))
}

fn root_in(name: &str, row: &Row<'_>, pager: &mut Pager<'_>) -> Result<Option<u32>> {
    let mut record = Record::open(row.payload(pager))?;
    let mut is = |column: usize, word: &str| {
        let max_bytes = diskfs_block::bytes::len_u64(word.len());
        let text = record.text(column, max_bytes)?.unwrap_or_default();
        Ok::<bool, Error>(text.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !is(0, "table")? || !is(1, name)? {
        return Ok(None);
    }
    let root = record.integer(3)?.and_then(|root| u32::try_from(root).ok());
    let none = || Error::corrupt(format!("invalid table `{name}`: missing root page"));
    root.ok_or_else(none).map(Some)
}
