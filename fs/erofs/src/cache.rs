//! Caches with a budget in bytes.

use std::hash::Hash;
use std::sync::Arc;

use diskfs_block::bytes::len_u64;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::error::Result;

/// A value that knows how many bytes of memory it needs.
pub(crate) trait Weight {
    /// Returns the size in bytes, without the entry itself.
    fn weight_bytes(&self) -> usize;
}

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl<K, V: Weight> Weighter<K, Arc<V>> for ByBytes {
    fn weight(&self, _: &K, value: &Arc<V>) -> u64 {
        /// The memory for an entry besides its bytes: key, pointer, counters, overhead of the
        /// cache.
        const ENTRY_BYTES: u64 = 128;
        len_u64(value.weight_bytes()).saturating_add(ENTRY_BYTES)
    }
}

/// A sharded cache with a budget in bytes. No lock is held while a value is made.
#[derive(Debug)]
pub(crate) struct ByteCache<K, V: Weight> {
    values: Cache<K, Arc<V>, ByBytes>,
}

impl<K: Hash + Eq + Clone, V: Weight> ByteCache<K, V> {
    /// Returns an empty cache of about `budget_bytes`, for values of about `typical_bytes`. The
    /// number of shards follows from both, so that the typical value fits into a shard.
    pub(crate) fn new(budget_bytes: u64, typical_bytes: u64) -> Self {
        let items = budget_bytes.checked_div(typical_bytes).unwrap_or(1);
        let items = usize::try_from(items).unwrap_or(usize::MAX);
        Self {
            values: Cache::with_weighter(items, budget_bytes, ByBytes),
        }
    }

    /// Returns the cached value, if there is one.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.values.get(key)
    }

    /// Returns the cached value; if there is none, it calls `make` and caches the result. Threads
    /// that want the same value wait for the one that makes it.
    pub(crate) fn get_or_make(&self, key: &K, make: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
        self.values.get_or_insert_with(key, || make().map(Arc::new))
    }
}
