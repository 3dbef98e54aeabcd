//! The cache of metadata blocks that were read and checked.
//!
//! The key of a block contains what it was read as, and for which inode. A valid directory block of
//! inode 12 is not therefore a valid extent block of inode 13. So a hostile image gains nothing by
//! using a block twice, and cached blocks need not be checked again.

use std::sync::Arc;

use diskfs_block::ByteCache;

use crate::block::FsBlock;

/// The key of a cached block: what it was read as, and for which inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kind: BlockKind,
    owner: u32,
    pub(crate) block: FsBlock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BlockKind {
    Superblock,
    GroupDescriptors,
    BlockBitmap,
    InodeBitmap,
    InodeTable,
    InodeTableBlock,
    ExtentBlock,
    IndirectBlock,
    DirectoryBlock,
    XattrBlock,
    OrphanBlock,
}

impl Key {
    const fn new(kind: BlockKind, owner: u32, block: FsBlock) -> Self {
        Self { kind, owner, block }
    }

    /// Returns the key of the block that contains the superblock, and with blocks of more than 1
    /// KiB the bytes around it.
    pub(crate) const fn superblock(block: FsBlock) -> Self {
        Self::new(BlockKind::Superblock, 0, block)
    }

    pub(crate) const fn block_bitmap(group: u32, block: FsBlock) -> Self {
        Self::new(BlockKind::BlockBitmap, group, block)
    }

    pub(crate) const fn inode_bitmap(group: u32, block: FsBlock) -> Self {
        Self::new(BlockKind::InodeBitmap, group, block)
    }

    /// Returns the key of a block of the orphan file.
    pub(crate) const fn orphan_block(inode: u32, block: FsBlock) -> Self {
        Self::new(BlockKind::OrphanBlock, inode, block)
    }

    pub(crate) const fn group_descriptors(block: FsBlock) -> Self {
        Self::new(BlockKind::GroupDescriptors, 0, block)
    }

    /// Returns the key of several blocks of an inode table, of which this is the first; in a
    /// filesystem that is opened for writing, of one block.
    pub(crate) const fn inode_table(first: FsBlock) -> Self {
        Self::new(BlockKind::InodeTable, 0, first)
    }

    /// Returns the key of a block of an inode table that was read alone.
    pub(crate) const fn inode_table_block(block: FsBlock) -> Self {
        Self::new(BlockKind::InodeTableBlock, 0, block)
    }

    pub(crate) const fn extent_block(inode: u32, block: FsBlock) -> Self {
        Self::new(BlockKind::ExtentBlock, inode, block)
    }

    pub(crate) const fn indirect_block(inode: u32, block: FsBlock) -> Self {
        Self::new(BlockKind::IndirectBlock, inode, block)
    }

    pub(crate) const fn directory_block(inode: u32, block: FsBlock) -> Self {
        Self::new(BlockKind::DirectoryBlock, inode, block)
    }

    pub(crate) const fn is_directory_block(self) -> bool {
        matches!(self.kind, BlockKind::DirectoryBlock)
    }

    /// Returns the key of a block of attributes, which inodes share together with its checksum.
    pub(crate) const fn xattr_block(block: FsBlock) -> Self {
        Self::new(BlockKind::XattrBlock, 0, block)
    }
}

/// The cache of metadata blocks.
pub(crate) type MetadataCache = ByteCache<Key, [u8]>;

/// The average size of a cached block: a block of the usual size.
pub(crate) const TYPICAL_BYTES: u64 = 4096;

/// Returns zeroed bytes to read into, in an allocation that the cache can keep.
pub(crate) fn zeroed(len: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, len).collect()
}
