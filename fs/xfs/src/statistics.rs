//! The usage of the filesystem, as the kernel shows it in statfs(2).

use diskfs_vfs::Statistics;

use crate::ag::{Agf, COUNTED_GROUPS_MAX};
use crate::error::Result;
use crate::features::ReadOnlyCompatible;
use crate::superblock::{INODES_PER_CHUNK, Superblock};
use crate::volume::Volume;

/// The length limit of a name.
pub(crate) const NAME_BYTES_MAX: u32 = 255;
/// The largest inode number, `XFS_MAXINUMBER`.
const INODES_MAX: u64 = (1 << 56) - 1;
/// The number of blocks per allocation group that are kept for the trees of free space,
/// `xfs_alloc_set_aside`.
const SET_ASIDE_BLOCKS: u64 = 8;

/// Returns the number of free blocks that no file can get. For the kernel, those are also the blocks
/// of the trees of free space, but only in groups whose header it has read: after a replay in all,
/// otherwise in none. With too many groups, their trees are left out.
fn set_aside(volume: &Volume, replayed: bool) -> Result<u64> {
    let superblock = &volume.superblock;
    let mut blocks = u64::from(superblock.ag_count).saturating_mul(SET_ASIDE_BLOCKS);
    if !replayed || !superblock.features.has_lazy_counters() {
        return Ok(blocks);
    }
    if superblock.ag_count > COUNTED_GROUPS_MAX {
        return Ok(blocks);
    }
    for ag in 0..superblock.ag_count {
        let agf = Agf::read(&*volume.device, superblock, ag)?;
        // The tree of reverse mappings is counted elsewhere, but for its root.
        let of_rmap = if superblock.features.has_ro(ReadOnlyCompatible::RMAPBT) {
            agf.rmap_blocks.saturating_sub(1)
        } else {
            0
        };
        let of_free_space = agf.tree_blocks.saturating_sub(of_rmap);
        blocks = blocks.saturating_add(of_free_space.into());
    }
    Ok(blocks)
}

/// Returns the usage of the filesystem, whose log was replayed or was clean.
///
/// # Errors
/// `Corrupt` or `Io`, if the allocation groups must be read.
pub(crate) fn statistics(volume: &Volume, replayed: bool) -> Result<Statistics> {
    let superblock = &volume.superblock;
    let log_blocks = match superblock.log_start {
        Some(_) => u64::from(superblock.log_blocks),
        None => 0,
    };
    let free = superblock
        .free_blocks
        .saturating_sub(set_aside(volume, replayed)?);
    let inodes = inode_limit(superblock, free);
    let used = superblock
        .inode_count
        .saturating_sub(superblock.free_inodes);
    Ok(Statistics {
        block_size: superblock.block_bytes,
        allocation_size: superblock.block_bytes,
        blocks: superblock.blocks.saturating_sub(log_blocks),
        blocks_free: free,
        blocks_available: free,
        inodes,
        inodes_free: inodes.saturating_sub(used),
        name_max: NAME_BYTES_MAX,
    })
}

/// Returns the number of inodes that there could be: the free space could contain them, unless the
/// limit of `imaxpct` is lower.
fn inode_limit(superblock: &Superblock, free_blocks: u64) -> u64 {
    let bits = superblock.inodes_per_block_bits;
    let inodes_of = |blocks: u64| blocks.checked_shl(bits).unwrap_or(u64::MAX);
    let possible = superblock
        .inode_count
        .saturating_add(inodes_of(free_blocks))
        .min(INODES_MAX);
    let per_chunk = u64::from(INODES_PER_CHUNK).wrapping_shr(bits).max(1);
    let share = superblock
        .blocks
        .saturating_mul(superblock.inode_percentage.into());
    let chunks = share.wrapping_div(100).checked_div(per_chunk).unwrap_or(0);
    match inodes_of(chunks.saturating_mul(per_chunk)) {
        0 => possible,
        limit => possible.min(limit).max(superblock.inode_count),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_headers_of_too_many_groups_are_not_read() {
        let image = diskfs_fixtures::image("xfs-default");
        let device = Arc::new(diskfs_block::File::open(image.path()).unwrap());
        let superblock = Superblock::read(&*device).unwrap();
        let mut volume = Volume::new(device, superblock);
        let groups = volume.superblock.ag_count;
        let trees = |volume: &Volume| {
            let set_aside = set_aside(volume, true)?;
            Ok(set_aside - u64::from(volume.superblock.ag_count) * SET_ASIDE_BLOCKS)
        };
        let complete: Result<u64> = trees(&volume);
        complete.unwrap();
        // The device has no header of this group.
        volume.superblock.ag_count = groups + 1;
        let error = trees(&volume).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io));
        for groups in [COUNTED_GROUPS_MAX + 1, u32::MAX] {
            volume.superblock.ag_count = groups;
            assert_eq!(trees(&volume).unwrap(), 0);
        }
    }
}
