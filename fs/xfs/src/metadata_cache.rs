//! The cache of metadata blocks that were read and checked.
//!
//! The key of a block contains what it was read as, and for which inode. A valid directory block of
//! one inode is not therefore a valid block of another. So a hostile image gains nothing by using a
//! block twice, and cached blocks need not be checked again.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::bytes::{index, len_u64};
use crate::error::Result;

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
        /// The average size of an entry: a block of the usual size, or a chunk of inodes.
        const TYPICAL_BYTES: u64 = 8192;
        let items = index(budget_bytes.wrapping_div(TYPICAL_BYTES));
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
