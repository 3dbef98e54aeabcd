//! The goal for the first block of an inode.

use diskfs_vfs::FileType;

use crate::block::FsBlock;
use crate::inode::Inode;

use super::Allocator;

impl Allocator {
    /// Returns a goal near the inode: in its group, or in its flexible group if that keeps the
    /// inode tables of many groups together. In a flexible group, the first group is for
    /// directories, so that they are near each other and near the tables, and files begin in the
    /// second group (`ext4_inode_to_goal_block`).
    pub(crate) fn goal_for(&self, inode: &Inode) -> FsBlock {
        /// The size from which a flexible group reserves its first group for directories:
        /// `EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME`, 4 groups, as a power of two.
        const SEPARATE_FROM_BITS: u32 = 2;
        let place = self.geometry.inode_place(inode.number);
        let own = place.map_or(0, |(group, _)| group);
        let bits = self.geometry.flex_bits;
        if bits < SEPARATE_FROM_BITS {
            return self.geometry.first_block(own);
        }
        let first = own & u32::MAX.wrapping_shl(bits);
        let second = first.saturating_add(1);
        let is_apart = inode.is(FileType::Regular) && second < self.geometry.groups;
        self.geometry
            .first_block(if is_apart { second } else { first })
    }
}
