//! The geometry of a grown filesystem: its number of blocks and groups, the groups with backups,
//! and the form of the descriptor table.

use crate::allocator::GROUPS_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::statistics::blocks_at_start;
use crate::superblock::Superblock;

/// The minimum number of blocks for data in the last group, as in mke2fs and resize2fs: a shorter
/// group is left out.
const LAST_GROUP_DATA_BLOCKS_MIN: u64 = 50;

/// Returns the number of blocks to which a filesystem can grow within `size_bytes`, without looking
/// at the last group: whole clusters.
///
/// # Errors
/// `Unsupported` if the format can't express that size.
pub(super) fn target_blocks(old: &Superblock, size_bytes: u64) -> Result<u64> {
    let blocks = size_bytes.wrapping_shr(old.block_size.bits());
    let blocks = blocks
        .wrapping_shr(old.cluster_ratio_bits)
        .wrapping_shl(old.cluster_ratio_bits);
    let target = Superblock {
        blocks_count: blocks,
        ..old.clone()
    };
    if !old.features.has(Incompatible::SIXTY_FOUR_BIT) && u32::try_from(blocks).is_err() {
        let reason = format!(
            "cannot grow to {blocks} blocks: without the feature `64bit`, at most {} are possible",
            u32::MAX
        );
        let hint = "on a copy, `resize2fs -b` adds the feature";
        return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
    }
    let inodes = groups_for(&target).saturating_mul(u64::from(old.inodes_per_group));
    if u32::try_from(inodes).is_err() {
        let reason = format!(
            "cannot grow to {blocks} blocks: it would have {inodes} inodes, at most {} are possible",
            u32::MAX
        );
        let hint = "choose a smaller size, or create a filesystem with fewer inodes";
        return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
    }
    if groups_for(&target) > u64::from(GROUPS_MAX) {
        let reason = format!(
            "cannot grow to {blocks} blocks: it would have {} block groups, at most {GROUPS_MAX} \
             are supported",
            groups_for(&target)
        );
        let hint = "choose a smaller size";
        return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
    }
    Ok(blocks)
}

/// Returns the superblock's values after the next stage of growing to `target_blocks`, or `None` if
/// the filesystem is as large as it can be. `table_blocks_max` is how many blocks of the descriptor
/// table may change in a stage.
///
/// One stage ends where the reserved blocks of the descriptor table are used up; the next one
/// switches to `meta_bg`.
///
/// # Errors
/// `Unsupported` if blocks of the reserve would have to be freed.
pub(super) fn next(
    old: &Superblock,
    target_blocks: u64,
    table_blocks_max: u32,
) -> Result<Option<Superblock>> {
    let last = old.groups_count.saturating_sub(1);
    let table_blocks = old.descriptor_place(last).0.saturating_add(1);
    let changeable = old
        .descriptor_place(last)
        .0
        .saturating_add(table_blocks_max);
    let target = target_blocks.min(end_of_table(old, changeable));
    let has_meta_bg = old.features.has(Incompatible::META_BG);
    let room = table_blocks.saturating_add(u32::from(old.reserved_gdt_blocks));
    let mut new = sized(old, old, target);
    if !has_meta_bg && table_blocks_of(&new) > room {
        new = if room > table_blocks {
            sized(old, old, end_of_table(old, room))
        } else {
            with_meta_bg(old, target, table_blocks)
        };
    }
    if new.blocks_count <= old.blocks_count {
        return Ok(None);
    }
    if new.reserved_gdt_blocks > 0 && u32::try_from(new.blocks_count).is_err() {
        let reason = format!(
            "cannot grow to {} blocks: the resize inode has blocks in reserve, and cannot refer to \
             blocks from 2^32 on",
            new.blocks_count
        );
        let hint = "choose a smaller size, or use resize2fs";
        return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
    }
    Ok(Some(new))
}

/// Returns the grown filesystem with `meta_bg` for the groups that the present table, of
/// `table_blocks`, has no room for; or without it if those groups would be left out.
fn with_meta_bg(old: &Superblock, target: u64, table_blocks: u32) -> Superblock {
    let mut switched = old.clone();
    switched.features.incompatible |= Incompatible::META_BG;
    switched
        .features
        .compatible
        .remove(Compatible::RESIZE_INODE);
    switched.first_meta_bg = table_blocks;
    let new = sized(old, &switched, target);
    if table_blocks_of(&new) > table_blocks {
        return new;
    }
    sized(old, old, end_of_table(old, table_blocks))
}

/// Returns the number of blocks of a filesystem whose groups fill a table of `table_blocks`.
fn end_of_table(old: &Superblock, table_blocks: u32) -> u64 {
    let groups = u64::from(table_blocks).saturating_mul(u64::from(old.descriptors_per_block()));
    groups
        .saturating_mul(u64::from(old.blocks_per_group))
        .saturating_add(u64::from(old.first_data_block))
}

fn table_blocks_of(superblock: &Superblock) -> u32 {
    superblock
        .descriptor_place(superblock.groups_count.saturating_sub(1))
        .0
        .saturating_add(1)
}

fn groups_for(superblock: &Superblock) -> u64 {
    superblock
        .blocks_count
        .saturating_sub(u64::from(superblock.first_data_block))
        .div_ceil(u64::from(superblock.blocks_per_group))
}

/// Returns `form`, which has the features of the new filesystem, with `blocks`, less a last group
/// that would be too short.
fn sized(old: &Superblock, form: &Superblock, blocks: u64) -> Superblock {
    let with = |blocks| {
        let mut new = form.clone();
        new.blocks_count = blocks;
        new.groups_count = u32::try_from(groups_for(&new)).unwrap_or(u32::MAX);
        new.inodes_count = new.groups_count.saturating_mul(new.inodes_per_group);
        let used = table_blocks_of(&new).saturating_sub(table_blocks_of(old));
        let used = u16::try_from(used).unwrap_or(u16::MAX);
        if !new.features.has(Incompatible::META_BG) {
            new.reserved_gdt_blocks = old.reserved_gdt_blocks.saturating_sub(used);
        }
        new.reserved_blocks_count = reserved_blocks(old, blocks);
        new.backup_groups = backup_groups(old, &new);
        new
    };
    let new = with(blocks);
    let last = new.groups_count.saturating_sub(1);
    let first = new.first_block_of_group(last).0;
    let len = new.blocks_count.saturating_sub(first);
    let needed = metadata_blocks(&new, last).saturating_add(LAST_GROUP_DATA_BLOCKS_MIN);
    if last >= old.groups_count && len < needed {
        return with(first);
    }
    new
}

/// Returns the number of blocks of a group's own metadata.
fn metadata_blocks(superblock: &Superblock, group: u32) -> u64 {
    const BITMAPS: u64 = 2;
    blocks_at_start(superblock, group)
        .saturating_add(BITMAPS)
        .saturating_add(u64::from(superblock.inode_table_blocks()))
}

/// Returns root's reserve, in proportion to the size.
fn reserved_blocks(old: &Superblock, blocks: u64) -> u64 {
    let product = u128::from(old.reserved_blocks_count).saturating_mul(u128::from(blocks));
    let reserved = product.checked_div(u128::from(old.blocks_count));
    u64::try_from(reserved.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Returns the groups with backups of a filesystem with `sparse_super2`: the second backup moves to
/// the new last group. It stays where it is with `bigalloc`, where it may share a cluster, and with
/// `meta_bg`, where the place of a descriptor block depends on it.
fn backup_groups(old: &Superblock, new: &Superblock) -> [u32; 2] {
    let features = new.features;
    let [first, second] = old.backup_groups;
    let last = new.groups_count.saturating_sub(1);
    if !features.has(Compatible::SPARSE_SUPER2) || last < old.groups_count {
        return old.backup_groups;
    }
    let movable =
        !features.has(ReadOnlyCompatible::BIGALLOC) && !features.has(Incompatible::META_BG);
    match (old.groups_count, first, second) {
        (1, 0, 0) => [1, if last > 1 { last } else { 0 }],
        (2, 1, 0) => [1, last],
        (groups, _, _) if second.saturating_add(1) == groups && movable => [first, last],
        _ => old.backup_groups,
    }
}
