//! The division of the device into block groups, as mke2fs does it.

use super::{Geometry, Wanted, invalid};
use crate::error::{Error, Result};
use crate::features::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use crate::group_descriptor::is_sparse_backup;

/// The maximum number of groups: the driver cannot write filesystems with more.
const GROUPS_MAX: u64 = 1 << 21;
/// A last group with fewer blocks than this after its metadata is left out.
const LAST_GROUP_BLOCKS_MIN: u64 = 50;
/// The first inode that is not reserved.
const FIRST_INODE: u64 = 11;

/// A result of one attempt with a number of blocks and a size of groups.
enum Attempt {
    Fits(Geometry),
    /// More inodes per group than a bitmap has bits: smaller groups are necessary.
    TooManyInodes,
    /// The last group has only this many blocks, too few for its metadata.
    LastGroup(u64),
}

/// Divides the device into groups.
pub(super) fn fit(wanted: &Wanted) -> Result<Geometry> {
    let cluster_blocks = 1u64.wrapping_shl(wanted.cluster_bits);
    let all_blocks = wanted.blocks & !cluster_blocks.wrapping_sub(1);
    let mut blocks = all_blocks;
    let mut per_group = wanted.blocks_per_group;
    loop {
        match attempt(wanted, blocks, per_group)? {
            Attempt::Fits(geometry) => return Ok(geometry),
            // Each round has smaller groups, so this ends.
            Attempt::TooManyInodes if wanted.cluster_bits == 0 && per_group >= 256 => {
                per_group = per_group.saturating_sub(8);
                blocks = all_blocks;
            }
            Attempt::TooManyInodes => return Err(too_many_inodes()),
            // The rest is zero after this, so it happens once for each size of groups.
            Attempt::LastGroup(rest) => blocks = blocks.saturating_sub(rest),
        }
    }
}

fn too_many_inodes() -> Error {
    let reason = "too many inodes: their tables do not fit into the block groups";
    invalid(reason).with_hint("use fewer inodes, or more bytes for each inode")
}

fn too_small(wanted: &Wanted) -> Error {
    let blocks = wanted.blocks;
    let bytes = wanted.block_size.bytes();
    let reason = format!(
        "the device is too small: {blocks} blocks of {bytes} bytes have no room for the metadata"
    );
    invalid(reason).with_hint("use a device of at least 100 KiB, smaller blocks or fewer inodes")
}

fn attempt(wanted: &Wanted, blocks: u64, per_group: u32) -> Result<Attempt> {
    let cluster_bytes = u64::from(wanted.block_size.bytes()).wrapping_shl(wanted.cluster_bits);
    let first_data_block = u32::from(cluster_bytes == 1024);
    let data_blocks = blocks.saturating_sub(u64::from(first_data_block));
    let groups = data_blocks.div_ceil(u64::from(per_group.max(1)));
    if groups == 0 {
        return Err(too_small(wanted));
    }
    if groups > GROUPS_MAX {
        let reason =
            format!("the device is too large: {groups} block groups, at most {GROUPS_MAX}");
        return Err(invalid(reason).with_hint("use larger blocks, or the feature `bigalloc`"));
    }
    let groups = u32::try_from(groups).unwrap_or(u32::MAX);
    let Some(inodes_per_group) = inodes_per_group(wanted, groups)? else {
        return Ok(Attempt::TooManyInodes);
    };
    let mut geometry = Geometry {
        features: wanted.features,
        block_size: wanted.block_size,
        cluster_bits: wanted.cluster_bits,
        first_data_block,
        blocks_count: blocks,
        reserved_blocks: reserved_blocks(wanted, blocks),
        blocks_per_group: per_group,
        groups,
        inodes_per_group,
        inode_bytes: wanted.inode_bytes,
        descriptor_bytes: wanted.descriptor_bytes,
        reserved_gdt_blocks: 0,
        backup_groups: wanted.backup_groups,
        flex_bits: 0,
    };
    geometry.reserve_descriptors(wanted);
    geometry.check_overhead()?;
    let rest = data_blocks.checked_rem(u64::from(per_group)).unwrap_or(0);
    if let Some(rest) = geometry.last_group_too_small(wanted, rest)? {
        return Ok(Attempt::LastGroup(rest));
    }
    geometry.place_backups();
    Ok(Attempt::Fits(geometry))
}

/// Returns root's reserve after a last group was left out: the same share of the blocks.
fn reserved_blocks(wanted: &Wanted, blocks: u64) -> u64 {
    let product = u128::from(wanted.reserved_blocks).saturating_mul(u128::from(blocks));
    let share = product.checked_div(u128::from(wanted.blocks)).unwrap_or(0);
    u64::try_from(share).unwrap_or(0)
}

/// Returns the number of inodes in each group: they fill whole blocks of the table, and whole bytes
/// of the bitmap. Returns `None` if they are more than a bitmap's bits.
fn inodes_per_group(wanted: &Wanted, groups: u32) -> Result<Option<u32>> {
    let block_bytes = wanted.block_size.bytes();
    let inode_bytes = u32::from(wanted.inode_bytes.max(1));
    let per_block = block_bytes.checked_div(inode_bytes).unwrap_or(1);
    let groups = u64::from(groups);
    let least = wanted.inodes.div_ceil(groups);
    if least > u64::from(block_bytes).saturating_mul(8) {
        return Ok(None);
    }
    // `EXT2_MAX_INODES_PER_GROUP`.
    let max = (1u32 << 16).saturating_sub(per_block);
    let mut least = u32::try_from(least).unwrap_or(max).min(max);
    loop {
        let blocks = u64::from(least).saturating_mul(u64::from(inode_bytes));
        let blocks = u32::try_from(wanted.block_size.blocks_for(blocks)).unwrap_or(u32::MAX);
        let per_group = blocks.saturating_mul(per_block).max(8) & !7;
        let inodes = u64::from(per_group).saturating_mul(groups);
        if inodes > u64::from(u32::MAX) {
            least = least.checked_sub(1).ok_or_else(too_many_inodes)?;
        } else if inodes <= FIRST_INODE {
            least = least.saturating_add(8);
        } else {
            return Ok(Some(per_group));
        }
    }
}

impl Geometry {
    /// Returns the number of blocks of the descriptor table.
    fn table_blocks(&self) -> u64 {
        let bytes = u64::from(self.groups).saturating_mul(u64::from(self.descriptor_bytes));
        self.block_size.blocks_for(bytes)
    }

    /// Reserves blocks for the growth of the descriptor table; uses `meta_bg` instead if the table
    /// would fill most of a group.
    fn reserve_descriptors(&mut self, wanted: &Wanted) {
        if self.features.has(Compatible::RESIZE_INODE) {
            let default = self.default_reserved_gdt_blocks();
            self.reserved_gdt_blocks = wanted.reserved_gdt_blocks.unwrap_or(default);
        }
        let all = self
            .table_blocks()
            .saturating_add(u64::from(self.reserved_gdt_blocks));
        let most = u64::from(self.blocks_per_group)
            .saturating_mul(3)
            .wrapping_div(4);
        if all > most {
            self.features.incompatible.insert(Incompatible::META_BG);
            self.features.compatible.remove(Compatible::RESIZE_INODE);
            self.reserved_gdt_blocks = 0;
        }
    }

    /// Returns the number of blocks for a growth by the factor 1024.
    fn default_reserved_gdt_blocks(&self) -> u16 {
        const FACTOR: u64 = 1024;
        const MAX: u64 = 0xffff_ffff;
        let blocks = if self.blocks_count < MAX.wrapping_div(FACTOR) {
            self.blocks_count.saturating_mul(FACTOR)
        } else {
            MAX
        };
        let data_blocks = blocks.saturating_sub(u64::from(self.first_data_block));
        let groups = data_blocks.div_ceil(u64::from(self.blocks_per_group.max(1)));
        let bytes = groups.saturating_mul(u64::from(self.descriptor_bytes));
        let more = self
            .block_size
            .blocks_for(bytes)
            .saturating_sub(self.table_blocks());
        // The numbers of the blocks have room in one block.
        let max = u64::from(self.block_size.bytes()).wrapping_div(4);
        u16::try_from(more.min(max)).unwrap_or(0)
    }

    /// Fails if the metadata of a group needs more than the group.
    fn check_overhead(&self) -> Result<()> {
        const SUPERBLOCK_AND_BITMAPS: u64 = 3;
        let descriptors = if self.features.has(Incompatible::META_BG) {
            1
        } else {
            self.table_blocks()
        };
        let overhead = SUPERBLOCK_AND_BITMAPS
            .saturating_add(self.inode_table_blocks())
            .saturating_add(u64::from(self.reserved_gdt_blocks))
            .saturating_add(descriptors);
        if overhead > u64::from(self.blocks_per_group) {
            return Err(too_many_inodes());
        }
        Ok(())
    }

    /// Returns the number of blocks of the last group if they are too few for its metadata.
    ///
    /// # Errors
    /// `Invalid` if that is the only group.
    fn last_group_too_small(&self, wanted: &Wanted, rest: u64) -> Result<Option<u64>> {
        const BITMAPS: u64 = 2;
        let mut overhead = BITMAPS.saturating_add(self.inode_table_blocks());
        if self.last_group_has_superblock() {
            overhead = overhead
                .saturating_add(1)
                .saturating_add(self.table_blocks())
                .saturating_add(u64::from(self.reserved_gdt_blocks));
        }
        let too_small_for = |blocks: u64| rest != 0 && rest < blocks;
        if self.groups == 1 && too_small_for(overhead.saturating_add(LAST_GROUP_BLOCKS_MIN)) {
            return Err(too_small(wanted));
        }
        let is_too_small = too_small_for(overhead.saturating_add(LAST_GROUP_BLOCKS_MIN));
        Ok(is_too_small.then_some(rest))
    }

    fn last_group_has_superblock(&self) -> bool {
        let last = self.groups.saturating_sub(1);
        let [first_backup, last_backup] = self.backup_groups;
        if self.features.has(Compatible::SPARSE_SUPER2) {
            return if self.groups == 2 {
                first_backup != 0
            } else {
                last_backup != 0
            };
        }
        has_backup(self.features, last)
    }

    /// Moves the backups of `sparse_super2` into groups that exist.
    fn place_backups(&mut self) {
        let last = self.groups.saturating_sub(1);
        let [mut first, mut second] = self.backup_groups.map(|group| group.min(last));
        if first == second {
            second = 0;
        }
        if first > second {
            std::mem::swap(&mut first, &mut second);
        }
        self.backup_groups = [first, second];
    }
}

fn has_backup(features: Features, group: u32) -> bool {
    !features.has(ReadOnlyCompatible::SPARSE_SUPER) || is_sparse_backup(group)
}
