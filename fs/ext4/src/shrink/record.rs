//! The place of the redo record for filesystems without a journal: at the end of a block group,
//! preferably one that is cut off.
//!
//! After a crash, the record must be found although descriptors and bitmaps may be overwritten. So its place depends only on the old superblock: the record has one of a few sizes,
//! and ends where a group ends.

use std::sync::Arc;

use diskfs_block::BlockWrite;

use crate::allocator::system_zone::SystemZone;
use crate::allocator::{Bits, Geometry};
use crate::block::FsBlock;
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::features::Compatible;
use crate::resize::edits::Edits;
use crate::resize::redo::Record;
use crate::superblock::Superblock;

use super::bitmaps;

/// The sizes of records in blocks: powers of two, and halfway between them.
fn sizes() -> impl Iterator<Item = u32> {
    (4..=14).flat_map(|bits| [2u32, 3].map(|half| half.wrapping_shl(bits).wrapping_div(2)))
}

/// Returns a record of `len` blocks that ends where `group` ends.
fn record(superblock: &Superblock, group: u32, len: u32) -> Option<(Record, u32)> {
    let end = superblock
        .first_block_of_group(group)
        .after(u64::from(superblock.blocks_per_group));
    let first = end
        .0
        .min(superblock.blocks_count)
        .checked_sub(u64::from(len))?;
    // Eight bytes for each block's number, and the header.
    let header_bytes = u64::from(len).saturating_mul(8).saturating_add(32);
    let header = u32::try_from(superblock.block_size.blocks_for(header_bytes)).ok()?;
    let count_max = len.checked_sub(header).filter(|&count| count > 0)?;
    Some((Record::at(FsBlock(first), count_max), count_max))
}

/// Returns the place for a record of all `edits`, which cut a filesystem down to `new`: preferably
/// in the part that is cut off, otherwise in free blocks. `zone` is the old filesystem's metadata.
///
/// # Errors
/// `NoSpace`; `Corrupt`, `Io`.
pub(super) fn place(edits: &Edits<'_>, new: &Superblock, zone: &SystemZone) -> Result<Record> {
    let old = &edits.volume().superblock;
    let count = u32::try_from(edits.len()).unwrap_or(u32::MAX);
    for group in (0..old.groups_count).rev() {
        let fitting = sizes()
            .filter_map(|len| Some((record(old, group, len)?, len)))
            .find(|((_, count_max), _)| count <= *count_max);
        let Some(((record, _), len)) = fitting else {
            continue;
        };
        let first = record.first();
        let is_free = if first >= FsBlock(new.blocks_count) {
            zone.is_disjoint(first, u64::from(len))
        } else {
            is_free(edits, zone, first, len)?
        };
        if is_free {
            return Ok(record);
        }
    }
    let reason = "the filesystem has no journal, and no block group ends with enough free blocks for \
                  a record of the change";
    let hint = "choose another size, or delete files";
    Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint))
}

/// Returns true if blocks are free after the change, too.
fn is_free(edits: &Edits<'_>, zone: &SystemZone, first: FsBlock, len: u32) -> Result<bool> {
    let superblock = &edits.volume().superblock;
    let geometry = Geometry::new(superblock);
    let parts = geometry.parts(first, u64::from(len));
    for (group, part) in parts.into_iter().flatten() {
        let bitmap = bitmaps::read(edits, zone, group)?;
        let bits = Bits::new(&bitmap, None, geometry.clusters_in(group));
        if bits.next_set(part.start, part.end()) < part.end() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Completes a change that a crash has interrupted, if there is its record.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(super) fn resume(device: &Arc<dyn BlockWrite>, superblock: &Superblock) -> Result<()> {
    let state = superblock.state;
    if superblock.features.has(Compatible::HAS_JOURNAL) || state.clean || state.errors {
        return Ok(());
    }
    let writer = DeviceWriter::new(Arc::clone(device), superblock.block_size);
    for group in (0..superblock.groups_count).rev() {
        for len in sizes() {
            let Some((record, _)) = record(superblock, group, len) else {
                continue;
            };
            if let Some(blocks) = record.read(&**device, superblock)? {
                return record.apply(&writer, superblock, &blocks);
            }
        }
    }
    Ok(())
}
