//! Metadata in memory: blocks that were read and found right.
//!
//! A block is kept under what it was read as and for which inode. That a block passed as inode 12's
//! directory block says nothing about it as inode 13's extent block, so a hostile image gains
//! nothing by pointing both there; and what is in the cache need not be checked again.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::block::FsBlock;
use crate::bytes::len_u64;
use crate::error::Result;

/// What a block was read as, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kind: Kind,
    owner: u32,
    pub(crate) block: FsBlock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
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
    const fn new(kind: Kind, owner: u32, block: FsBlock) -> Self {
        Self { kind, owner, block }
    }

    /// The block that holds the superblock, and with blocks of more than 1 KiB what is around it.
    pub(crate) const fn superblock(block: FsBlock) -> Self {
        Self::new(Kind::Superblock, 0, block)
    }

    pub(crate) const fn block_bitmap(group: u32, block: FsBlock) -> Self {
        Self::new(Kind::BlockBitmap, group, block)
    }

    pub(crate) const fn inode_bitmap(group: u32, block: FsBlock) -> Self {
        Self::new(Kind::InodeBitmap, group, block)
    }

    /// A block of the orphan file.
    pub(crate) const fn orphan_block(inode: u32, block: FsBlock) -> Self {
        Self::new(Kind::OrphanBlock, inode, block)
    }

    pub(crate) const fn group_descriptors(block: FsBlock) -> Self {
        Self::new(Kind::GroupDescriptors, 0, block)
    }

    /// Several blocks of an inode table, of which this is the first; one block of it in a filesystem
    /// that is being written.
    pub(crate) const fn inode_table(first: FsBlock) -> Self {
        Self::new(Kind::InodeTable, 0, first)
    }

    pub(crate) const fn extent_block(inode: u32, block: FsBlock) -> Self {
        Self::new(Kind::ExtentBlock, inode, block)
    }

    pub(crate) const fn indirect_block(inode: u32, block: FsBlock) -> Self {
        Self::new(Kind::IndirectBlock, inode, block)
    }

    pub(crate) const fn directory_block(inode: u32, block: FsBlock) -> Self {
        Self::new(Kind::DirectoryBlock, inode, block)
    }

    pub(crate) const fn is_directory_block(self) -> bool {
        matches!(self.kind, Kind::DirectoryBlock)
    }

    /// Shared among inodes, and its checksum with them.
    pub(crate) const fn xattr_block(block: FsBlock) -> Self {
        Self::new(Kind::XattrBlock, 0, block)
    }
}

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl Weighter<Key, Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &Key, bytes: &Arc<[u8]>) -> u64 {
        /// What an entry takes besides its bytes: key, pointer, counters, the cache's own.
        const ENTRY_BYTES: u64 = 96;
        len_u64(bytes.len()).saturating_add(ENTRY_BYTES)
    }
}

/// Sharded, with a budget in bytes.
#[derive(Debug)]
pub(crate) struct MetadataCache {
    blocks: Cache<Key, Arc<[u8]>, ByBytes>,
}

impl MetadataCache {
    /// An empty one that keeps about `budget_bytes`.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        /// What an entry has on the average: a block of the usual size.
        const TYPICAL_BYTES: u64 = 4096;
        let items = usize::try_from(budget_bytes.wrapping_div(TYPICAL_BYTES)).unwrap_or(usize::MAX);
        Self {
            blocks: Cache::with_weighter(items, budget_bytes, ByBytes),
        }
    }

    /// What is kept under `key`; else what `read` gives, which is kept from then on. Threads that
    /// want the same wait for the one that reads it.
    pub(crate) fn get_or_read(
        &self,
        key: Key,
        read: impl FnOnce() -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        self.blocks.get_or_insert_with(&key, read)
    }

    /// Whether something is kept under `key`.
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.blocks.contains_key(&key)
    }

    /// Keeps what was read and checked elsewhere.
    pub(crate) fn insert(&self, key: Key, bytes: Arc<[u8]>) {
        self.blocks.insert(key, bytes);
    }
}

/// Zeroed bytes to read into, in the allocation that the cache keeps.
pub(crate) fn zeroed(len: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, len).collect()
}
