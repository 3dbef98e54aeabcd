//! Where the first block of an inode is best.

use diskfs_vfs::FileType;

use crate::block::FsBlock;
use crate::inode::Inode;

use super::Allocator;

impl Allocator {
    /// Near the inode: in its group, or where inode tables of many groups stand together, in its
    /// flexible group. There the first group is for directories, so that they are near each other
    /// and the tables, and files begin in the second (`ext4_inode_to_goal_block`).
    pub(crate) fn goal_for(&self, inode: &Inode) -> FsBlock {
        /// `EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME`: 4 groups, as a power of two.
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
