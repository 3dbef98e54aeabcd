//! The cache of metadata blocks that were read and checked.
//!
//! The key of a block contains what it was read as, and for which inode. A valid directory block of
//! one inode is not therefore a valid block of another. So a hostile image gains nothing by using a
//! block twice, and cached blocks need not be checked again.

use diskfs_block::ByteCache;

/// The key of a cached block: what it was read as, for which inode, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) kind: BlockKind,
    /// The inode; 0 for a structure that belongs to none.
    pub(crate) owner: u64,
    /// The block in the file for blocks of directories and attributes; a block number or a byte of
    /// the device for all others.
    pub(crate) place: u64,
}

/// The kind of structure that a block was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BlockKind {
    InodeWindow,
    DataForkNode,
    AttributeForkNode,
    DirectoryData,
    DirectoryIndex,
    Attributes,
}

/// The cache of metadata blocks.
pub(crate) type MetadataCache = ByteCache<Key, [u8]>;

/// The average size of a cached block: a block of the usual size, or a chunk of inodes.
pub(crate) const TYPICAL_BYTES: u64 = 8192;
