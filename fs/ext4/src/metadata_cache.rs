//! The cache of metadata blocks that were read and checked.
//!
//! The key of a block contains what it was read as, and for which inode. A valid directory block of
//! inode 12 is not therefore a valid extent block of inode 13. So a hostile image gains nothing by
//! using a block twice, and cached blocks need not be checked again.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::block::FsBlock;
use crate::bytes::len_u64;
use crate::error::Result;

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

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl Weighter<Key, Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &Key, bytes: &Arc<[u8]>) -> u64 {
        /// The memory for an entry besides its bytes: key, pointer, counters, overhead of the
        /// cache.
        const ENTRY_BYTES: u64 = 96;
        len_u64(bytes.len()).saturating_add(ENTRY_BYTES)
    }
}

/// A sharded cache with a budget in bytes.
#[derive(Debug)]
pub(crate) struct MetadataCache {
    blocks: Cache<Key, Arc<[u8]>, ByBytes>,
}

impl MetadataCache {
    /// Returns an empty cache that keeps about `budget_bytes`.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        /// The average size of an entry: a block of the usual size.
        const TYPICAL_BYTES: u64 = 4096;
        let items = usize::try_from(budget_bytes.wrapping_div(TYPICAL_BYTES)).unwrap_or(usize::MAX);
        Self {
            blocks: Cache::with_weighter(items, budget_bytes, ByBytes),
        }
    }

    /// Returns the cached bytes under `key`; if there are none, it calls `read` and caches the
    /// result. Threads that want the same block wait for the one that reads it.
    pub(crate) fn get_or_read(
        &self,
        key: Key,
        read: impl FnOnce() -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        self.blocks.get_or_insert_with(&key, read)
    }

    /// Returns true if the cache has an entry under `key`.
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.blocks.contains_key(&key)
    }

    /// Adds bytes that were read and checked elsewhere.
    pub(crate) fn insert(&self, key: Key, bytes: Arc<[u8]>) {
        self.blocks.insert(key, bytes);
    }
}

/// Returns zeroed bytes to read into, in an allocation that the cache can keep.
pub(crate) fn zeroed(len: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, len).collect()
}
