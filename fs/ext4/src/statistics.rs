//! The numbers for `statfs`, as the kernel computes them at mount.

use diskfs_vfs::Statistics;

use crate::block::FsBlock;
use crate::error::Result;
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::group_descriptor::{GroupDescriptor, has_superblock, table_blocks_in_group};
use crate::superblock::Superblock;
use crate::volume::Volume;

/// Sums the descriptors of all block groups: the superblock's counts are out of date while the
/// filesystem is in use.
pub(crate) fn statistics(volume: &Volume) -> Result<Statistics> {
    let superblock = &volume.superblock;
    let mut counts = Counts::default();
    for group in 0..superblock.groups_count {
        counts.add(superblock, group, &GroupDescriptor::read(volume, group)?);
    }
    let overhead = overhead_clusters(volume, &mut counts)?;
    let ratio = superblock.cluster_ratio_bits;
    let blocks_free = counts.free_clusters.wrapping_shl(ratio);
    Ok(Statistics {
        block_size: superblock.block_size.bytes(),
        allocation_size: superblock.block_size.bytes().wrapping_shl(ratio),
        blocks: superblock
            .blocks_count
            .saturating_sub(overhead.wrapping_shl(ratio)),
        blocks_free,
        blocks_available: blocks_free.saturating_sub(reserved_blocks(superblock)),
        inodes: u64::from(superblock.inodes_count),
        inodes_free: counts.free_inodes,
        name_max: 255,
    })
}

/// Returns the number of blocks that ordinary users cannot use: root's reserve and the kernel's.
pub(crate) fn reserved_blocks(superblock: &Superblock) -> u64 {
    let own = kernel_reserved_blocks(superblock);
    superblock.reserved_blocks_count.saturating_add(own)
}

/// Returns the number of blocks that only the filesystem itself can use: the kernel's reserve.
pub(crate) fn kernel_reserved_blocks(superblock: &Superblock) -> u64 {
    reserved_clusters(superblock).wrapping_shl(superblock.cluster_ratio_bits)
}

/// Returns the number of clusters that the kernel reserves for delayed allocation
/// (`s_resv_clusters`): 2 %, at most 4096; none without extents.
fn reserved_clusters(superblock: &Superblock) -> u64 {
    const SHARE: u64 = 50;
    const MAX: u64 = 4096;
    if !superblock.features.has(Incompatible::EXTENTS) {
        return 0;
    }
    let clusters = superblock
        .blocks_count
        .wrapping_shr(superblock.cluster_ratio_bits);
    clusters.wrapping_div(SHARE).min(MAX)
}

#[derive(Debug, Default)]
struct Counts {
    free_clusters: u64,
    free_inodes: u64,
    /// The number of metadata blocks at fixed places, without bigalloc.
    metadata_blocks: u64,
    /// The metadata at fixed places as runs of clusters, with bigalloc: two groups may share a
    /// cluster.
    metadata_runs: Vec<(u64, u64)>,
}

impl Counts {
    fn add(&mut self, superblock: &Superblock, group: u32, descriptor: &GroupDescriptor) {
        self.free_clusters = self
            .free_clusters
            .saturating_add(u64::from(descriptor.free_clusters));
        self.free_inodes = self
            .free_inodes
            .saturating_add(u64::from(descriptor.free_inodes));
        let at_start = blocks_at_start(superblock, group);
        let table = u64::from(superblock.inode_table_blocks());
        if superblock.features.has(ReadOnlyCompatible::BIGALLOC) {
            self.add_run(superblock, superblock.first_block_of_group(group), at_start);
            self.add_run(superblock, descriptor.block_bitmap, 1);
            self.add_run(superblock, descriptor.inode_bitmap, 1);
            self.add_run(superblock, descriptor.inode_table, table);
        } else {
            const BITMAPS: u64 = 2;
            let blocks = at_start.saturating_add(table).saturating_add(BITMAPS);
            self.metadata_blocks = self.metadata_blocks.saturating_add(blocks);
        }
    }

    fn add_run(&mut self, superblock: &Superblock, first: FsBlock, len_blocks: u64) {
        let cluster = |block: u64| block.wrapping_shr(superblock.cluster_ratio_bits);
        if let Some(last) = first.0.saturating_add(len_blocks).checked_sub(1)
            && len_blocks > 0
        {
            self.metadata_runs.push((cluster(first.0), cluster(last)));
        }
    }

    /// Returns the number of distinct clusters in the runs.
    fn metadata_clusters(&mut self) -> u64 {
        self.metadata_runs.sort_unstable();
        let mut free_from = 0;
        let mut count = 0u64;
        for &(first, last) in &self.metadata_runs {
            let first = first.max(free_from);
            let end = last.saturating_add(1);
            count = count.saturating_add(end.saturating_sub(first));
            free_from = free_from.max(end);
        }
        count
    }
}

/// Returns the number of blocks at the start of a group for the superblock, the descriptors and the
/// room for their growth.
pub(crate) fn blocks_at_start(superblock: &Superblock, group: u32) -> u64 {
    let table = table_blocks_in_group(superblock, group);
    if !has_superblock(superblock, group) {
        return table;
    }
    table
        .saturating_add(1)
        .saturating_add(u64::from(superblock.reserved_gdt_blocks))
}

/// Returns the overhead that `statfs` subtracts from the total: metadata at fixed places and the
/// journal. The kernel uses the superblock's value only with bigalloc, where counting is slow for
/// it.
fn overhead_clusters(volume: &Volume, counts: &mut Counts) -> Result<u64> {
    let superblock = &volume.superblock;
    let stored = u64::from(superblock.overhead_clusters);
    let bigalloc = superblock.features.has(ReadOnlyCompatible::BIGALLOC);
    if bigalloc && stored != 0 && stored <= superblock.blocks_count {
        return Ok(stored);
    }
    let journal = journal_blocks(volume)?;
    if bigalloc {
        let ratio = superblock.cluster_ratio_bits;
        let journal = journal.wrapping_shr(ratio);
        return Ok(counts.metadata_clusters().saturating_add(journal));
    }
    Ok(counts
        .metadata_blocks
        .saturating_add(u64::from(superblock.first_data_block))
        .saturating_add(journal))
}

fn journal_blocks(volume: &Volume) -> Result<u64> {
    let superblock = &volume.superblock;
    if !superblock.features.has(Compatible::HAS_JOURNAL) || superblock.journal_inode == 0 {
        return Ok(0);
    }
    let inode = volume.inode(superblock.journal_inode)?;
    let size = inode.map_or(0, |inode| inode.size_bytes);
    Ok(size.wrapping_shr(superblock.block_size.bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_clusters_count_once() {
        let mut counts = Counts {
            metadata_runs: vec![(5, 9), (0, 2), (2, 3), (9, 9), (20, 20)],
            ..Counts::default()
        };
        assert_eq!(counts.metadata_clusters(), 4 + 5 + 1);
    }
}
