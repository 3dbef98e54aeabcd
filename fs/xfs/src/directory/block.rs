//! Reading of directory blocks, which may consist of several blocks of the filesystem.

use std::sync::Arc;

use crate::bmap::extents_from;
use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::extent::Extent;
use crate::inode::{ForkKind, Inode};
use crate::metadata_cache::{BlockKind, Key};
use crate::superblock::Superblock;
use crate::volume::Volume;

/// The number of bytes that a listing reads at once. Adjacent blocks of a directory are often
/// contiguous on the device.
const READ_AHEAD_BYTES: u64 = 64 << 10;

/// The part of a directory that a block belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Data,
    Index,
}

impl Part {
    fn key(self, inode: &Inode, file_block: u64) -> Key {
        Key {
            kind: match self {
                Self::Data => BlockKind::DirectoryData,
                Self::Index => BlockKind::DirectoryIndex,
            },
            owner: inode.number,
            place: file_block,
        }
    }

    fn check(self, superblock: &Superblock, inode: &Inode, bytes: &[u8], at: u64) -> Result<()> {
        match self {
            Self::Data => super::data::check(superblock, inode, bytes, at),
            Self::Index => super::index::check(superblock, inode, bytes, at),
        }
    }
}

/// Returns the number of the filesystem's blocks in a block of a directory.
pub(super) fn blocks_per_directory_block(superblock: &Superblock) -> u64 {
    u64::from(superblock.directory_block_bytes).wrapping_shr(superblock.block_bits)
}

/// Returns the checked block of a directory that starts at `file_block`.
pub(super) fn read(
    volume: &Volume,
    inode: &Inode,
    part: Part,
    file_block: u64,
) -> Result<Arc<[u8]>> {
    volume
        .metadata
        .get_or_make(&part.key(inode, file_block), || -> Result<Arc<[u8]>> {
            let (bytes, at) = read_uncached(volume, inode, file_block)?;
            part.check(&volume.superblock, inode, &bytes, at)?;
            Ok(bytes)
        })
}

/// Does the same as [`read`] for a block of entries, and also caches the blocks that follow it.
pub(super) fn read_ahead(
    volume: &Volume,
    inode: &Inode,
    file_block: u64,
    extent: &Extent,
) -> Result<Arc<[u8]>> {
    if !volume.metadata.contains(&Part::Data.key(inode, file_block)) {
        fill(volume, inode, file_block, extent)?;
    }
    read(volume, inode, Part::Data, file_block)
}

/// Reads the blocks of entries from `file_block` on that are contiguous, and caches those that are
/// valid. An error in one of them is reported when that is read.
fn fill(volume: &Volume, inode: &Inode, file_block: u64, extent: &Extent) -> Result<()> {
    let superblock = &volume.superblock;
    let per_block = blocks_per_directory_block(superblock);
    let skipped = file_block.saturating_sub(extent.file_block);
    let most = READ_AHEAD_BYTES.wrapping_shr(superblock.block_bits);
    let left = extent.end().saturating_sub(file_block).min(most);
    let count = left.checked_div(per_block).unwrap_or(0);
    let Some(start) = superblock.byte_of(extent.first.after(skipped)) else {
        return Ok(());
    };
    if count < 2 {
        return Ok(());
    }
    let size = index(superblock.directory_block_bytes);
    let bytes = volume.read_bytes(start, size.saturating_mul(index(count)))?;
    for (nth, block) in (0..).zip(bytes.chunks_exact(size)) {
        let at = start.saturating_add(len_u64(size).saturating_mul(nth));
        if Part::Data.check(superblock, inode, block, at).is_ok() {
            let place = file_block.saturating_add(per_block.saturating_mul(nth));
            volume
                .metadata
                .insert(Part::Data.key(inode, place), block.into());
        }
    }
    Ok(())
}

/// Reads a block whose parts may lie apart. Returns the byte of the device of its first part, too.
fn read_uncached(volume: &Volume, inode: &Inode, file_block: u64) -> Result<(Arc<[u8]>, u64)> {
    let superblock = &volume.superblock;
    let size = index(superblock.directory_block_bytes);
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, size).collect();
    let mut first = None;
    let mut done = 0;
    let end = file_block.saturating_add(blocks_per_directory_block(superblock));
    let mut next = file_block;
    // No other thread has it yet.
    let buf = Arc::get_mut(&mut bytes).unwrap_or_default();
    for extent in extents_from(volume, inode, ForkKind::Data, file_block) {
        let extent = extent?;
        let skipped = next.saturating_sub(extent.file_block);
        let place = superblock.byte_of(extent.first.after(skipped));
        let (Some(place), true) = (place, extent.file_block <= next) else {
            break;
        };
        let blocks = extent.end().min(end).saturating_sub(next);
        let len = index(superblock.bytes_of(blocks));
        let part = buf.get_mut(done..).and_then(|rest| rest.get_mut(..len));
        volume.read_device(place, part.unwrap_or_default())?;
        first.get_or_insert(place);
        done = done.saturating_add(len);
        next = next.saturating_add(blocks);
        if next >= end {
            break;
        }
    }
    match first {
        Some(first) if next >= end => Ok((bytes, first)),
        _ => Err(inode.corrupt(format!("directory block {file_block} is missing"))),
    }
}
