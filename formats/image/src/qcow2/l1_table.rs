//! Checks of an L1 table as a whole.

use diskfs_block::{BlockRead, Error, Result};

use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::Table;
use crate::qcow2::l1_entry;
use crate::qcow2::units::HostOffset;

/// The number of bytes to read at once.
const PIECE_BYTES: u64 = 64 << 10;

/// Fails if two entries of the L1 table point to the same L2 table.
///
/// No program writes such a table: two ranges of the guest's disk would share their clusters, and a
/// write to one would change the other. Walking the L2 tables would visit one of them up to four
/// million times, as an attacker likes. Without such entries there are at most as many L2 tables as
/// the file has clusters. Snapshots share L2 tables, but each has an L1 table of its own.
pub(crate) fn refuse_shared_l2_tables(file: &dyn BlockRead, l1: Table) -> Result<()> {
    let mut tables = Vec::new();
    let mut done = 0;
    while done < l1.size_bytes() {
        let len_bytes = PIECE_BYTES.min(l1.size_bytes().saturating_sub(done));
        let at = l1.at.plus(done);
        let readable = file.size_bytes().saturating_sub(at.0).min(len_bytes) & !7;
        if readable == 0 {
            // The part of the table that the disk needs is within the file; the rest was never
            // written.
            break;
        }
        let words = TableSlice::read(file, at, readable)?;
        let entries = (0..words.len()).map(|index| l1_entry::offset(words.word(index)));
        tables.extend(entries.filter(|&table| table != 0));
        done = done.saturating_add(len_bytes);
    }
    tables.sort_unstable();
    let twice = tables.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    });
    twice.map_or(Ok(()), |table| Err(shared(HostOffset(table), l1)))
}

/// Returns the error for an L2 table to which an L1 table points twice.
pub(super) fn shared(table: HostOffset, l1: Table) -> Error {
    let reason = format!(
        "two entries of the L1 table at {} name this L2 table",
        l1.at
    );
    Error::corrupt(reason)
        .at(table.0)
        .with_hint("`qemu-img check` shows the damage; reading is still possible")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{to_u64, to_usize};
    use diskfs_block::{ErrorKind, Memory};

    fn table(entries: &[u64]) -> Result<()> {
        let bytes: Vec<u8> = entries.iter().flat_map(|word| word.to_be_bytes()).collect();
        let l1 = Table {
            at: HostOffset(0),
            entries: to_u64(entries.len()),
        };
        refuse_shared_l2_tables(&Memory::new(bytes), l1)
    }

    #[test]
    fn an_l2_table_is_named_once() {
        let copied = 1 << 63;
        table(&[]).unwrap();
        table(&[0, 0, 0x10000, 0, 0x20000 | copied, 0]).unwrap();
        let e = table(&[0x20000, 0, 0x10000, 0x20000 | copied]).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(0x20000)));
        // The second reference is in another piece of the table.
        let mut entries: Vec<u64> = (1..20_000_u64).map(|n| n << 16).collect();
        table(&entries).unwrap();
        entries.push(1 << 16);
        assert!(table(&entries).is_err());
        assert!(to_usize(PIECE_BYTES) < entries.len() * 8);
    }
}
