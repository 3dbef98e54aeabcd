//! The geometry of block groups: the positions of blocks and inodes in them.

use std::ops::Range;

use crate::block::FsBlock;
use crate::bytes::index;
use crate::superblock::Superblock;

use super::bits::Run;

/// The properties of groups that never change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    first_data_block: u64,
    blocks_count: u64,
    blocks_per_group: u32,
    /// The number of blocks in a cluster, as a power of two.
    pub(crate) cluster_bits: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) groups: u32,
    /// The number of groups in a flexible group, as a power of two.
    pub(crate) flex_bits: u32,
    /// The size of a bitmap's block in bytes.
    pub(crate) bitmap_bytes: usize,
}

impl Geometry {
    pub(crate) fn new(superblock: &Superblock) -> Self {
        Self {
            first_data_block: u64::from(superblock.first_data_block),
            blocks_count: superblock.blocks_count,
            blocks_per_group: superblock.blocks_per_group,
            cluster_bits: superblock.cluster_ratio_bits,
            inodes_per_group: superblock.inodes_per_group,
            groups: superblock.groups_count,
            flex_bits: superblock.flex_group_bits,
            bitmap_bytes: superblock.block_size.len(),
        }
    }

    /// Returns the geometry in which each block is a cluster.
    pub(crate) const fn by_blocks(self) -> Self {
        Self {
            cluster_bits: 0,
            ..self
        }
    }

    /// Returns the block after the last one.
    pub(crate) const fn end(&self) -> FsBlock {
        FsBlock(self.blocks_count)
    }

    /// Returns the number of clusters in every group but the last.
    pub(crate) const fn clusters_per_group(&self) -> u32 {
        self.blocks_per_group.wrapping_shr(self.cluster_bits)
    }

    /// Returns the first block of a group.
    pub(crate) fn first_block(&self, group: u32) -> FsBlock {
        self.block_of(group, 0)
    }

    /// Returns the first block of a cluster of a group.
    pub(crate) fn block_of(&self, group: u32, cluster: u32) -> FsBlock {
        let blocks = u64::from(group).saturating_mul(u64::from(self.blocks_per_group));
        let within = u64::from(cluster).wrapping_shl(self.cluster_bits);
        FsBlock(self.first_data_block).after(blocks).after(within)
    }

    /// Returns the number of blocks in a group: the last group may be shorter.
    pub(crate) fn blocks_in(&self, group: u32) -> u64 {
        let left = self.blocks_count.saturating_sub(self.first_block(group).0);
        left.min(u64::from(self.blocks_per_group))
    }

    /// Returns the number of clusters in a group; the last cluster of the filesystem may be
    /// incomplete.
    pub(crate) fn clusters_in(&self, group: u32) -> u32 {
        let blocks = self.blocks_in(group);
        let ratio = 1u64.wrapping_shl(self.cluster_bits);
        u32::try_from(blocks.div_ceil(ratio)).unwrap_or(u32::MAX)
    }

    /// Returns the group of a block, and the cluster within the group.
    pub(crate) fn place(&self, block: FsBlock) -> Option<(u32, u32)> {
        if block.0 >= self.blocks_count {
            return None;
        }
        let within = block.0.checked_sub(self.first_data_block)?;
        let per_group = u64::from(self.blocks_per_group);
        let group = u32::try_from(within.checked_div(per_group)?).ok()?;
        let cluster = within
            .checked_rem(per_group)?
            .wrapping_shr(self.cluster_bits);
        Some((group, u32::try_from(cluster).ok()?))
    }

    /// Splits a run of blocks into runs of clusters, one for each group, including clusters that
    /// the run touches only in part. Returns `None` if the run is not within the filesystem.
    pub(crate) fn parts(
        &self,
        first: FsBlock,
        len_blocks: u64,
    ) -> Option<impl Iterator<Item = (u32, Run)> + use<>> {
        let last = FsBlock(first.0.checked_add(len_blocks.checked_sub(1)?)?);
        let (first_group, first_cluster) = self.place(first)?;
        let (last_group, last_cluster) = self.place(last)?;
        let per_group = self.clusters_per_group();
        let part = move |group: u32| {
            let start = if group == first_group {
                first_cluster
            } else {
                0
            };
            let end = if group == last_group {
                last_cluster.saturating_add(1)
            } else {
                per_group
            };
            let len = end.saturating_sub(start);
            (group, Run { start, len })
        };
        Some((first_group..=last_group).map(part))
    }

    /// Returns the group of an inode, and its index within the group.
    pub(crate) fn inode_place(&self, number: u32) -> Option<(u32, u32)> {
        let position = number.checked_sub(1)?;
        let group = position.checked_div(self.inodes_per_group)?;
        let nth = position.checked_rem(self.inodes_per_group)?;
        (group < self.groups).then_some((group, nth))
    }

    /// Returns the number of the `nth` inode of a group.
    pub(crate) const fn inode_number(&self, group: u32, nth: u32) -> u32 {
        group
            .saturating_mul(self.inodes_per_group)
            .saturating_add(nth)
            .saturating_add(1)
    }

    /// Returns all groups: from `first` to the last, then those before `first`.
    pub(crate) fn groups_from(&self, first: u32) -> impl Iterator<Item = u32> + use<> {
        let first = if first < self.groups { first } else { 0 };
        (first..self.groups).chain(0..first)
    }

    /// Returns the groups of a flexible group.
    pub(crate) fn groups_of_flex(&self, flex: u32) -> Range<u32> {
        let first = flex.checked_shl(self.flex_bits).unwrap_or(u32::MAX);
        let len = 1u32.wrapping_shl(self.flex_bits);
        first.min(self.groups)..first.saturating_add(len).min(self.groups)
    }

    /// Returns the number of flexible groups.
    pub(crate) fn flexes(&self) -> u32 {
        self.groups.div_ceil(1u32.wrapping_shl(self.flex_bits))
    }

    /// Returns the number of words in the bitmap of held clusters of one group.
    pub(crate) fn held_words(&self) -> usize {
        index(self.clusters_per_group().div_ceil(u64::BITS))
    }
}
