//! The tree of checksums of data. An item has those of consecutive sectors.

use std::ops::Range;

use crate::bytes::{index, len_u64};
use crate::cursor::Item;
use crate::error::{Error, ErrorKind, Result, corrupt_at};
use crate::key::{Key, item};
use crate::logical::Logical;
use crate::volume::Volume;

/// The object ID of all checksums (`BTRFS_EXTENT_CSUM_OBJECTID`).
const CHECKSUMS: u64 = 0_u64.wrapping_sub(10);

/// A sector that differs from its checksum.
#[derive(Debug)]
pub(crate) struct WrongSector {
    /// The place of the sector in the buffer.
    pub(crate) place: Range<usize>,
    pub(crate) checksum: Vec<u8>,
}

/// Compares whole sectors with their checksums. Returns those that differ.
///
/// # Errors
/// `Corrupt` if a checksum is missing, as on Linux.
pub(crate) fn compare(volume: &Volume, start: Logical, buf: &[u8]) -> Result<Vec<WrongSector>> {
    let missing = || corrupt_at("missing checksum of data of btrfs", start);
    let tree = volume
        .checksums
        .as_ref()
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, "missing tree of checksums of btrfs"))?;
    let key = Key::new(CHECKSUMS, item::EXTENT_CSUM, start.0);
    let mut cursor = volume.at_or_before(tree, key)?;
    if cursor.item().is_none_or(|item| !item.key.is_beside(key)) {
        cursor.advance()?;
    }
    let mut wrong = Vec::new();
    let mut done = 0_usize;
    while done < buf.len() {
        let item = cursor
            .item()
            .filter(|item| item.key.is_beside(key))
            .ok_or_else(missing)?;
        let at = start.plus(len_u64(done));
        if item.key.offset > at.0 {
            return Err(corrupt_at("missing checksum of data of btrfs", at));
        }
        done = done.saturating_add(compare_item(volume, item, at, done, buf, &mut wrong));
        if done < buf.len() {
            cursor.advance()?;
        }
    }
    Ok(wrong)
}

/// Compares the sectors of `buf` from byte `done` on, which has the address `at`, with the
/// checksums of an item. Returns the number of bytes that the item has checksums of.
fn compare_item(
    volume: &Volume,
    item: &Item,
    at: Logical,
    done: usize,
    buf: &[u8],
    wrong: &mut Vec<WrongSector>,
) -> usize {
    let kind = volume.superblock().checksum;
    let sector_bytes = index(volume.sector_bytes());
    let skipped = at.since(Logical(item.key.offset));
    let skipped = index(skipped).checked_div(sector_bytes).unwrap_or(0);
    let checksums = item.bytes().chunks_exact(kind.len_bytes()).skip(skipped);
    let rest = buf.get(done..).unwrap_or_default();
    let mut compared = 0_usize;
    for (sector, checksum) in rest.chunks_exact(sector_bytes).zip(checksums) {
        let end = compared.saturating_add(sector_bytes);
        if !kind.matches(sector, checksum) {
            wrong.push(WrongSector {
                place: done.saturating_add(compared)..done.saturating_add(end),
                checksum: checksum.to_vec(),
            });
        }
        compared = end;
    }
    compared
}
