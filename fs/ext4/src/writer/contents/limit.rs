//! The maximum size of files.

use crate::error::Result;
use crate::features::ReadOnlyCompatible;
use crate::file_blocks::{self, too_large};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::superblock::Superblock;
use crate::volume::Volume;

/// Returns the maximum size of a file: `s_maxbytes` and `s_bitmap_maxbytes`.
pub(super) fn size_max(volume: &Volume, inode: &Inode) -> u64 {
    let superblock = &volume.superblock;
    let blocks = if inode.has(InodeFlags::EXTENTS) {
        // The last block number is not used, so that the number of all blocks fits into 32 bits.
        file_blocks::END.saturating_sub(1)
    } else {
        file_blocks::map_reach(volume)
    };
    superblock
        .block_size
        .bytes_of(blocks.min(countable_blocks(superblock)))
        .min(i64::MAX.cast_unsigned())
}

/// Returns how many blocks `i_blocks` can count; for a file without holes it also counts the blocks
/// of its map.
fn countable_blocks(superblock: &Superblock) -> u64 {
    const SECTOR_BITS: u32 = 9;
    if superblock.features.has(ReadOnlyCompatible::HUGE_FILE) {
        return 1 << 48;
    }
    let sectors_bits = superblock.block_size.bits().saturating_sub(SECTOR_BITS);
    u64::from(u32::MAX).wrapping_shr(sectors_bits)
}

/// Fails if a file may not have this size.
pub(super) fn check_size(volume: &Volume, inode: &Inode, size_bytes: u64) -> Result<()> {
    if size_bytes > size_max(volume, inode) {
        return Err(too_large());
    }
    Ok(())
}

/// Sets the size of a file. The first file of 2 GiB or more sets `large_file` in the superblock.
pub(super) fn set_size(handle: &Handle<'_>, inode: &mut Inode, size_bytes: u64) -> Result<()> {
    const LARGE_BYTES: u64 = 1 << 31;
    let features = handle.volume().superblock.features;
    let grows_large = inode.size_bytes < LARGE_BYTES && size_bytes >= LARGE_BYTES;
    inode.size_bytes = size_bytes;
    if grows_large && !features.has(ReadOnlyCompatible::LARGE_FILE) {
        handle.change_superblock(|raw| {
            let words = raw.s_feature_ro_compat.get() | ReadOnlyCompatible::LARGE_FILE.bits();
            raw.s_feature_ro_compat.set(words);
        })?;
    }
    Ok(())
}
