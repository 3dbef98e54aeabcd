//! The bitmaps and descriptors of the block groups of a new filesystem.

use super::block_writer::BlockWriter;
use super::plan::Plan;
use crate::allocator::{
    BitRun, bitmap_checksum, bitmap_checksum_mask, has_flags, set_bits, set_padding,
};
use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::Result;
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::inode::Inode;

/// Writes the bitmaps. Returns the descriptor table, in whole blocks. `zeroed` says for each group
/// whether the rest of its inode table reads as zeroes.
pub(super) fn write(plan: &Plan, zeroed: &[bool], writer: &mut BlockWriter<'_>) -> Result<Vec<u8>> {
    let superblock = &plan.superblock;
    let size = usize::from(superblock.descriptor_size);
    let last = superblock.groups_count.saturating_sub(1);
    let table_blocks = index(superblock.descriptor_place(last).0).saturating_add(1);
    let mut table = vec![0; table_blocks.saturating_mul(superblock.block_size.len())];
    for group in 0..superblock.groups_count {
        let zeroed = zeroed.get(index(group)).copied().unwrap_or(false);
        let mut descriptor = describe(plan, group, zeroed);
        write_bitmaps(plan, group, &mut descriptor, writer)?;
        let start = index(group).saturating_mul(size);
        let bytes = table.get_mut(start..start.saturating_add(size));
        descriptor.encode_new(superblock, group, bytes.unwrap_or_default())?;
    }
    Ok(table)
}

fn describe(plan: &Plan, group: u32, zeroed: bool) -> GroupDescriptor {
    let superblock = &plan.superblock;
    let tables = plan.tables.get(index(group)).copied().unwrap_or_default();
    let in_use = plan.inodes_in_use(group);
    let free_inodes = superblock.inodes_per_group.saturating_sub(in_use);
    let mut flags = GroupFlags::empty();
    if has_flags(superblock) {
        flags.set(GroupFlags::INODE_ZEROED, zeroed);
        flags.set(GroupFlags::INODE_UNINIT, in_use == 0);
        flags.set(GroupFlags::BLOCK_UNINIT, has_generated_bitmap(plan, group));
    }
    let directories = plan
        .files
        .inodes
        .iter()
        .filter(|inode| is_directory_in(plan, group, inode));
    GroupDescriptor {
        block_bitmap: FsBlock(tables.block_bitmap),
        inode_bitmap: FsBlock(tables.inode_bitmap),
        inode_table: FsBlock(tables.inode_table),
        free_clusters: u32::try_from(plan.free_clusters(group)).unwrap_or(u32::MAX),
        free_inodes,
        used_directories: u32::try_from(directories.count()).unwrap_or(0),
        flags,
        unused_inodes: if has_flags(superblock) {
            free_inodes
        } else {
            0
        },
        block_bitmap_checksum: 0,
        inode_bitmap_checksum: 0,
    }
}

fn is_directory_in(plan: &Plan, group: u32, inode: &Inode) -> bool {
    let position = inode.number.saturating_sub(1);
    let is_here = position.checked_div(plan.superblock.inodes_per_group) == Some(group);
    is_here && inode.is(diskfs_vfs::FileType::Directory)
}

/// Returns true if a group's block bitmap is not on the device: the group has no file, no copy of
/// the superblock or of descriptors, and with flexible groups no metadata at all.
fn has_generated_bitmap(plan: &Plan, group: u32) -> bool {
    let superblock = &plan.superblock;
    let is_last = group.saturating_add(1) == superblock.groups_count;
    if is_last || plan.inodes_in_use(group) > 0 {
        return false;
    }
    let blocks = plan.blocks_of_group(group);
    if plan.has_scattered_tables {
        return plan.used.count_in(blocks) == 0;
    }
    let has_files = plan.used.count_in(blocks.clone()) != plan.metadata.count_in(blocks);
    !has_files && crate::statistics::blocks_at_start(superblock, group) == 0
}

fn write_bitmaps(
    plan: &Plan,
    group: u32,
    descriptor: &mut GroupDescriptor,
    writer: &mut BlockWriter<'_>,
) -> Result<()> {
    let superblock = &plan.superblock;
    let mask = bitmap_checksum_mask(superblock);
    let checksum = |bitmap: &[u8], bits: u32| {
        let bytes = index(bits.wrapping_div(8));
        bitmap_checksum(superblock, bitmap, bytes).map_or(0, |checksum| checksum & mask)
    };
    if !descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) {
        let bitmap = block_bitmap(plan, group);
        let clusters = superblock
            .blocks_per_group
            .wrapping_shr(superblock.cluster_ratio_bits);
        descriptor.block_bitmap_checksum = checksum(&bitmap, clusters);
        writer.put(descriptor.block_bitmap, bitmap)?;
    }
    if !descriptor.flags.contains(GroupFlags::INODE_UNINIT) {
        let mut bitmap = vec![0; superblock.block_size.len()];
        let in_use = BitRun {
            start: 0,
            len: plan.inodes_in_use(group),
        };
        set_bits(&mut bitmap, in_use);
        set_padding(&mut bitmap, superblock.inodes_per_group);
        descriptor.inode_bitmap_checksum = checksum(&bitmap, superblock.inodes_per_group);
        writer.put(descriptor.inode_bitmap, bitmap)?;
    }
    Ok(())
}

fn block_bitmap(plan: &Plan, group: u32) -> Vec<u8> {
    let superblock = &plan.superblock;
    let bits = superblock.cluster_ratio_bits;
    let blocks = plan.blocks_of_group(group);
    let cluster = |block: u64| {
        let within = block.saturating_sub(blocks.start);
        u32::try_from(within.div_ceil(1u64.wrapping_shl(bits))).unwrap_or(u32::MAX)
    };
    let mut bitmap = vec![0; superblock.block_size.len()];
    for run in plan.used.within(blocks.clone()) {
        let start = cluster(run.start);
        let len = cluster(run.end).saturating_sub(start);
        set_bits(&mut bitmap, BitRun { start, len });
    }
    set_padding(&mut bitmap, cluster(blocks.end));
    bitmap
}
