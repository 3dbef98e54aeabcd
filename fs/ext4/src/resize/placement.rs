//! The places of the bitmaps and inode tables of new groups.
//!
//! With `flex_bg`, the new groups of a flexible group have theirs side by side in the first of
//! them. Nothing is placed within the old filesystem, so that everything can be written before the
//! old filesystem changes.

use std::ops::Range;

use crate::block::FsBlock;
use crate::error::{Result, Structure, malformed};
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::statistics::blocks_at_start;
use crate::superblock::Superblock;

/// The maximum number of groups in `2^FLEX_BITS_MAX` that are placed together, to limit the memory.
const FLEX_BITS_MAX: u32 = 10;

/// Returns the end of the groups that are placed together with `group`: of its flexible group, or
/// of the filesystem.
pub(super) fn end_of_flex(superblock: &Superblock, group: u32) -> u32 {
    let bits = superblock.flex_group_bits.min(FLEX_BITS_MAX);
    let next = group.wrapping_shr(bits).saturating_add(1);
    let end = u64::from(next).wrapping_shl(bits);
    u32::try_from(end)
        .unwrap_or(u32::MAX)
        .min(superblock.groups_count)
}

/// Returns descriptors of new groups with the places of their metadata, and no counts yet. The
/// groups belong to one flexible group.
///
/// # Errors
/// `Corrupt` if a group has no room for its metadata.
pub(super) fn place(superblock: &Superblock, groups: Range<u32>) -> Result<Vec<GroupDescriptor>> {
    if let Some(descriptors) = side_by_side(superblock, groups.clone()) {
        return Ok(descriptors);
    }
    // So many inodes that the tables don't fit between the backups: as without `flex_bg`.
    let alone = groups.map(|group| {
        side_by_side(superblock, group..group.saturating_add(1)).ok_or_else(|| {
            let problem = "a block group has no room for its bitmaps and its inode table";
            malformed(Structure::Superblock, problem)
        })
    });
    let alone: Vec<_> = alone.collect::<Result<_>>()?;
    Ok(alone.into_iter().flatten().collect())
}

fn side_by_side(superblock: &Superblock, groups: Range<u32>) -> Option<Vec<GroupDescriptor>> {
    let mut room = Room::new(superblock, groups.clone());
    let table_blocks = u64::from(superblock.inode_table_blocks());
    let bitmaps = |room: &mut Room<'_>| groups.clone().map(|_| room.take(1)).collect();
    let block_bitmaps: Option<Vec<FsBlock>> = bitmaps(&mut room);
    let inode_bitmaps: Option<Vec<FsBlock>> = bitmaps(&mut room);
    block_bitmaps?
        .into_iter()
        .zip(inode_bitmaps?)
        .map(|(block_bitmap, inode_bitmap)| {
            Some(GroupDescriptor {
                block_bitmap,
                inode_bitmap,
                inode_table: room.take(table_blocks)?,
                free_clusters: 0,
                free_inodes: superblock.inodes_per_group,
                used_directories: 0,
                flags: GroupFlags::empty(),
                unused_inodes: 0,
                block_bitmap_checksum: 0,
                inode_bitmap_checksum: 0,
            })
        })
        .collect()
}

/// The unused blocks of a range of groups, taken from the start.
struct Room<'s> {
    superblock: &'s Superblock,
    groups: Range<u32>,
    next: u64,
    end: u64,
}

impl<'s> Room<'s> {
    const fn new(superblock: &'s Superblock, groups: Range<u32>) -> Self {
        Self {
            superblock,
            groups,
            next: 0,
            end: 0,
        }
    }

    /// Takes the next run of `len_blocks` within one group.
    fn take(&mut self, len_blocks: u64) -> Option<FsBlock> {
        while self.end.saturating_sub(self.next) < len_blocks {
            let group = self.groups.next()?;
            let first = self.superblock.first_block_of_group(group);
            self.next = first.after(blocks_at_start(self.superblock, group)).0;
            let end = first.after(u64::from(self.superblock.blocks_per_group));
            self.end = end.0.min(self.superblock.blocks_count);
        }
        let taken = FsBlock(self.next);
        self.next = self.next.saturating_add(len_blocks);
        Some(taken)
    }
}
