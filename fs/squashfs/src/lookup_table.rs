//! Lookup tables: an array of places of metadata blocks, which have the entries.
//!
//! IDs, fragments, the export table and the IDs of attributes are stored this way.

use diskfs_block::bytes::index;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::inode_reference::InodeReference;
use crate::metadata_block::{METADATA_BYTES, MetadataBlocks, Table};

/// A lookup table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupTable {
    /// The place of the array on the device. The metadata blocks lie before it.
    pub(crate) start: u64,
    /// The number of entries.
    pub(crate) entries: u64,
}

impl LookupTable {
    /// Reads an entry; `T` is the type of all entries, whose size divides a block.
    ///
    /// # Errors
    /// `Corrupt` if there is no such entry, or its block is invalid.
    pub(crate) fn entry<T>(&self, blocks: &MetadataBlocks, number: u64) -> Result<T>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        if number >= self.entries {
            let reason = format!(
                "invalid index {number}: the table has {} entries",
                self.entries
            );
            return Err(corrupt(reason, self.start));
        }
        let per_block = u64::try_from(METADATA_BYTES.checked_div(size_of::<T>()).unwrap_or(1))
            .unwrap_or(1)
            .max(1);
        let block = number.checked_div(per_block).unwrap_or(0);
        let nth = index(number.checked_rem(per_block).unwrap_or(0));
        let mut place = [0; 8];
        blocks.read_stored(
            self.start.saturating_add(block.saturating_mul(8)),
            &mut place,
        )?;
        let place = u64::from_le_bytes(place);
        let table = Table {
            start: place,
            end: self.start,
        };
        let offset = u16::try_from(nth.saturating_mul(size_of::<T>())).unwrap_or(u16::MAX);
        blocks
            .cursor(table, InodeReference::new(0, offset))?
            .read_raw()
    }
}
