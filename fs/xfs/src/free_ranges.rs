//! The free space, from the trees of free space by block.

use std::ops::Range;

use diskfs_vfs::{FreeRanges, join_ranges};

use crate::ag::Agf;
use crate::ag::tree::{BNOBT, Records};
use crate::bytes::be32;
use crate::error::{Result, corrupt};
use crate::volume::Volume;

/// Returns the free ranges of all allocation groups. The iterator ends at the first group without a
/// valid header, and each header has its number, so the device bounds the number of groups.
pub(crate) fn free_ranges(volume: &Volume) -> FreeRanges<'_> {
    let groups = 0..volume.superblock.ag_count;
    let mut failed = false;
    let ranges = groups.flat_map(move |ag| ranges_of(volume, ag));
    join_ranges(ranges.take_while(move |range| !std::mem::replace(&mut failed, range.is_err())))
}

/// Returns the free ranges of an allocation group.
fn ranges_of(volume: &Volume, ag: u32) -> FreeRanges<'_> {
    match Agf::read(&*volume.device, &volume.superblock, ag) {
        Ok(agf) => {
            let records = Records::new(volume, BNOBT, ag, agf.by_block, 0);
            Box::new(records.map(move |record| range(volume, ag, &record?)))
        }
        Err(e) => Box::new(std::iter::once(Err(e))),
    }
}

/// Returns the bytes of the device of a record.
fn range(volume: &Volume, ag: u32, record: &[u8]) -> Result<Range<u64>> {
    let superblock = &volume.superblock;
    let (first, len) = (be32(record, 0).unwrap_or(0), be32(record, 4).unwrap_or(0));
    let start = superblock.run_bytes(superblock.fs_block(ag, first), len.into());
    match start {
        Some(start) if len > 0 && first < superblock.ag_len_blocks(ag) => {
            Ok(start..start.saturating_add(superblock.bytes_of(len.into())))
        }
        _ => {
            let reason = format!("invalid free range: {len} blocks at block {first} of group {ag}");
            Err(corrupt(reason, superblock.ag_start(ag)))
        }
    }
}
