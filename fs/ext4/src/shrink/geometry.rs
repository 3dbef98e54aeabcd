//! The geometry of a shrunk filesystem.

use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible};
use crate::statistics::blocks_at_start;
use crate::superblock::Superblock;

/// The minimum number of blocks for data in the last group, as in mke2fs and resize2fs.
const LAST_GROUP_DATA_BLOCKS_MIN: u64 = 50;

/// Returns the filesystem within `blocks` blocks, in whole clusters and without a last group that
/// would be too short.
///
/// # Errors
/// `Invalid` if there would be no group at all.
pub(super) fn shrunk(old: &Superblock, blocks: u64) -> Result<Superblock> {
    let bits = old.cluster_ratio_bits;
    let new = sized(old, blocks.wrapping_shr(bits).wrapping_shl(bits));
    let last = new.groups_count.saturating_sub(1);
    let first = new.first_block_of_group(last).0;
    let len = new.blocks_count.saturating_sub(first);
    if len >= shortest_group(&new, last).min(u64::from(new.blocks_per_group)) {
        return Ok(new);
    }
    if last == 0 {
        let reason = format!("a filesystem of {blocks} blocks has no room for its metadata");
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    Ok(sized(old, first))
}

fn shortest_group(superblock: &Superblock, group: u32) -> u64 {
    const BITMAPS: u64 = 2;
    blocks_at_start(superblock, group)
        .saturating_add(BITMAPS)
        .saturating_add(u64::from(superblock.inode_table_blocks()))
        .saturating_add(LAST_GROUP_DATA_BLOCKS_MIN)
}

fn sized(old: &Superblock, blocks: u64) -> Superblock {
    let mut new = old.clone();
    new.blocks_count = blocks;
    let groups = blocks
        .saturating_sub(u64::from(old.first_data_block))
        .div_ceil(u64::from(old.blocks_per_group));
    new.groups_count = u32::try_from(groups).unwrap_or(u32::MAX).max(1);
    new.inodes_count = new.groups_count.saturating_mul(new.inodes_per_group);
    new.reserved_blocks_count = reserved_blocks(old, blocks);
    new.backup_groups = backup_groups(&new);
    let table_blocks = table_blocks(&new);
    new.first_meta_bg = new.first_meta_bg.min(table_blocks);
    if new.features.has(Compatible::RESIZE_INODE) && !new.features.has(Incompatible::META_BG) {
        new.reserved_gdt_blocks = reserved_table_blocks(old, table_blocks);
    }
    new
}

/// Returns the number of blocks of the descriptor table.
pub(super) fn table_blocks(superblock: &Superblock) -> u32 {
    let last = superblock.groups_count.saturating_sub(1);
    superblock.descriptor_place(last).0.saturating_add(1)
}

/// Returns the number of blocks that the resize inode owns: those that the table no longer needs
/// are added, as many as it can refer to.
fn reserved_table_blocks(old: &Superblock, new_table_blocks: u32) -> u16 {
    let released = table_blocks(old).saturating_sub(new_table_blocks);
    let all = u32::from(old.reserved_gdt_blocks).saturating_add(released);
    let most = old.block_size.bytes().wrapping_shr(2);
    u16::try_from(all.min(most)).unwrap_or(u16::MAX)
}

/// Returns root's reserve, in proportion to the size.
fn reserved_blocks(old: &Superblock, blocks: u64) -> u64 {
    let product = u128::from(old.reserved_blocks_count).saturating_mul(u128::from(blocks));
    let reserved = product.checked_div(u128::from(old.blocks_count));
    u64::try_from(reserved.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Returns the groups with backups of a filesystem with `sparse_super2`. The second one, which was
/// in the last group, is given up: for a new one, blocks of files would have to move.
fn backup_groups(new: &Superblock) -> [u32; 2] {
    let kept = |group: u32| if group < new.groups_count { group } else { 0 };
    match new.backup_groups.map(kept) {
        [0, second] => [second, 0],
        kept => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::sample;

    #[test]
    fn a_last_group_without_room_is_left_out() {
        let mut old = Superblock::parse(&sample(), 4 << 20).unwrap();
        old.blocks_count = 4 * u64::from(old.blocks_per_group);
        old.groups_count = 4;
        let per_group = u64::from(old.blocks_per_group);
        let first = old.first_block_of_group(2).0;
        assert_eq!(shrunk(&old, first + 20).unwrap().blocks_count, first);
        let new = shrunk(&old, first + per_group / 2).unwrap();
        assert_eq!(
            (new.groups_count, new.blocks_count),
            (3, first + per_group / 2)
        );
        assert!(shrunk(&old, 20).is_err());
    }
}
