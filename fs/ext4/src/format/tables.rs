//! The places of bitmaps and inode tables, chosen as mke2fs chooses them.

use super::geometry::Geometry;
use super::options::FormatOptions;
use super::used_blocks::UsedBlocks;
use crate::error::{Error, ErrorKind, Result};
use crate::features::Incompatible;
use crate::statistics::blocks_at_start;
use crate::superblock::{Superblock, superblock_block};

/// The places of a group's metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GroupTables {
    pub(super) block_bitmap: u64,
    pub(super) inode_bitmap: u64,
    pub(super) inode_table: u64,
}

/// Marks the superblocks, the descriptor tables, and the room for their growth.
pub(super) fn mark_starts(superblock: &Superblock, used: &mut UsedBlocks) {
    for group in 0..superblock.groups_count {
        let at_start = blocks_at_start(superblock, group);
        let first = superblock.first_block_of_group(group).0;
        if group == 0 {
            // With bigalloc and blocks of 1 KiB, the superblock is not in the first block.
            let end = superblock_block(superblock.block_size).after(at_start).0;
            used.mark(first, end.saturating_sub(first));
        } else {
            let left = superblock.blocks_count.saturating_sub(first);
            used.mark(first, at_start.min(left));
        }
    }
}

/// Returns true if a group's bitmaps and inode table may be in another group.
pub(super) fn are_scattered(geometry: &Geometry, options: &FormatOptions) -> bool {
    geometry.features.has(Incompatible::FLEX_BG)
        && (geometry.flex_bits > 0 || options.extended.packed_meta_blocks)
}

/// Chooses the places for all groups, and marks them as in use.
///
/// # Errors
/// `Invalid` if a table does not fit.
pub(super) fn place(
    superblock: &Superblock,
    geometry: &Geometry,
    options: &FormatOptions,
    used: &mut UsedBlocks,
) -> Result<Vec<GroupTables>> {
    let flex = superblock.features.has(Incompatible::FLEX_BG) && geometry.flex_bits > 0;
    let mut placer = Placer {
        superblock,
        used,
        table_blocks: geometry.inode_table_blocks(),
        flex_bits: geometry.flex_bits,
        stride: u64::from(options.extended.stride_blocks),
    };
    if superblock.features.has(Incompatible::FLEX_BG) && options.extended.packed_meta_blocks {
        return placer.packed();
    }
    let mut tables = Vec::new();
    let mut before = GroupTables::default();
    for group in 0..superblock.groups_count {
        before = if flex {
            placer.flexible(group, before)?
        } else {
            placer.in_group(group)?
        };
        tables.push(before);
    }
    Ok(tables)
}

struct Placer<'a> {
    superblock: &'a Superblock,
    used: &'a mut UsedBlocks,
    /// The number of blocks of one inode table.
    table_blocks: u64,
    flex_bits: u32,
    stride: u64,
}

impl Placer<'_> {
    fn first_block(&self, group: u32) -> u64 {
        self.superblock.first_block_of_group(group).0
    }

    /// Returns the last block of a group.
    fn last_block(&self, group: u32) -> u64 {
        let end = self.first_block(group.saturating_add(1));
        end.min(self.superblock.blocks_count).saturating_sub(1)
    }

    /// Allocates `len_blocks` free blocks that begin at or after `start` and before `finish`.
    fn take(&mut self, start: u64, finish: u64, len_blocks: u64) -> Result<u64> {
        let found = self.used.find(start, finish, len_blocks).ok_or_else(|| {
            let reason = "the bitmaps and inode tables do not fit into the block groups";
            let hint = "use fewer inodes, larger groups, or the feature `flex_bg`";
            Error::new(ErrorKind::Invalid, reason).with_hint(hint)
        })?;
        self.used.mark(found, len_blocks);
        Ok(found)
    }

    /// Places all block bitmaps at the start, then all inode bitmaps, then all inode tables.
    fn packed(&mut self) -> Result<Vec<GroupTables>> {
        let groups = self.superblock.groups_count;
        let end = self.superblock.blocks_count;
        let mut tables = Vec::new();
        for _ in 0..groups {
            let block_bitmap = self.take(0, end, 1)?;
            tables.push(GroupTables {
                block_bitmap,
                ..GroupTables::default()
            });
        }
        let mut goal = tables.last().map_or(0, |tables| tables.block_bitmap);
        for table in &mut tables {
            goal = self.take(goal, end, 1)?;
            table.inode_bitmap = goal;
        }
        for table in &mut tables {
            goal = self.take(goal, end.saturating_sub(1), self.table_blocks)?;
            table.inode_table = goal;
        }
        Ok(tables)
    }

    /// Places the metadata of a group within the group.
    fn in_group(&mut self, group: u32) -> Result<GroupTables> {
        let first = self.first_block(group);
        let last = self.last_block(group);
        let bitmaps = self.striped(group, first, last);
        let block_bitmap = match self.take(bitmaps, last, 1) {
            Err(_) => self.take(first, last, 1)?,
            found => found?,
        };
        let inode_bitmap = match self.take(bitmaps, last, 1) {
            Err(_) => self.take(first, last, 1)?,
            found => found?,
        };
        Ok(GroupTables {
            block_bitmap,
            inode_bitmap,
            inode_table: self.take(first, last, self.table_blocks)?,
        })
    }

    /// Returns where the bitmaps of a group should be. With the stride of a RAID, those of
    /// neighbouring groups are on different disks.
    fn striped(&self, group: u32, first: u64, last: u64) -> u64 {
        if self.stride == 0 {
            return first;
        }
        let Some(free) = self.used.find(first, last, 1) else {
            return first;
        };
        let start = free.saturating_add(self.table_blocks);
        let room = last.saturating_add(1).saturating_sub(start);
        let shift = self.stride.saturating_mul(u64::from(group));
        let start = start.saturating_add(shift.checked_rem(room).unwrap_or(0));
        if start >= last { first } else { start }
    }

    /// Places the metadata of a group next to that of the group before it in the same flexible
    /// group, of which `before` has the places.
    fn flexible(&mut self, group: u32, before: GroupTables) -> Result<GroupTables> {
        let flex_groups = 1u32.wrapping_shl(self.flex_bits);
        let within = group & flex_groups.wrapping_sub(1);
        let last_group = (group | flex_groups.wrapping_sub(1))
            .min(self.superblock.groups_count.saturating_sub(1));
        let left = u64::from(last_group.saturating_sub(group).saturating_add(1));
        let distance = u64::from(self.distance(group, last_group));
        let next = |of_first: u64, of_others: u64| if within == 0 { of_first } else { of_others };
        let goal = next(0, before.block_bitmap.saturating_add(1));
        let block_bitmap = self.take_flexible(group, last_group, goal, left, 1)?;
        let goal = next(
            block_bitmap.saturating_add(distance),
            before.inode_bitmap.saturating_add(1),
        );
        let inode_bitmap = self.take_flexible(group, last_group, goal, left, 1)?;
        let goal = next(
            inode_bitmap.saturating_add(distance),
            before.inode_table.saturating_add(self.table_blocks),
        );
        let inode_table = self.take_flexible(group, last_group, goal, left, self.table_blocks)?;
        Ok(GroupTables {
            block_bitmap,
            inode_bitmap,
            inode_table,
        })
    }

    /// Returns how many blocks after the first block bitmap of a flexible group its inode bitmaps
    /// begin, and after these its inode tables: enough for the bitmaps of all groups. The last
    /// flexible group has fewer, but for a single group mke2fs leaves the room of all.
    fn distance(&self, group: u32, last_group: u32) -> u32 {
        let flex_groups = 1u32.wrapping_shl(self.flex_bits);
        let is_last = last_group.saturating_add(1) == self.superblock.groups_count;
        match last_group & flex_groups.wrapping_sub(1) {
            others @ 1.. if is_last && group & flex_groups.wrapping_sub(1) == 0 => {
                others.saturating_add(1)
            }
            _ => flex_groups,
        }
    }

    /// Allocates `len_blocks` blocks for a group: near `goal`, else anywhere in the flexible group.
    /// `left` groups of it, including this one, still need such blocks.
    fn take_flexible(
        &mut self,
        group: u32,
        last_group: u32,
        goal: u64,
        left: u64,
        len_blocks: u64,
    ) -> Result<u64> {
        let start = self.flexible_offset(group, last_group, goal, left, len_blocks);
        let last = self.last_block(last_group);
        match self.take(start, last, len_blocks) {
            Err(_) if len_blocks == 1 => self.take(self.first_block(group), last, 1),
            taken => taken,
        }
    }

    fn flexible_offset(
        &self,
        group: u32,
        last_group: u32,
        goal: u64,
        left: u64,
        len_blocks: u64,
    ) -> u64 {
        let quarter = u64::from(self.superblock.blocks_per_group).wrapping_div(4);
        let all = left.saturating_mul(len_blocks).min(quarter);
        if goal != 0
            && goal < self.superblock.blocks_count
            && let Some(found) = self.used.find(goal, goal.saturating_add(all), len_blocks)
        {
            return found;
        }
        let first_group = group & !1u32.wrapping_shl(self.flex_bits).wrapping_sub(1);
        let first = self.first_block(first_group);
        let last = self.last_block(last_group);
        self.used
            .find(first, last, all)
            .or_else(|| self.used.find(first, last, len_blocks))
            .or_else(|| self.used.find(0, last, len_blocks))
            .unwrap_or(0)
    }
}
