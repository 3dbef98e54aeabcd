//! A cache of shared values with a budget in bytes.

use std::hash::Hash;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::bytes::{index, len_u64};

/// A value that knows how many bytes of memory it needs.
pub trait Weight {
    /// Returns the size in bytes, without the entry of the cache.
    fn weight_bytes(&self) -> usize;
}

impl Weight for [u8] {
    fn weight_bytes(&self) -> usize {
        self.len()
    }
}

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl<K, V: Weight + ?Sized> Weighter<K, Arc<V>> for ByBytes {
    fn weight(&self, _: &K, value: &Arc<V>) -> u64 {
        /// The memory for an entry besides its bytes: key, pointer, counters, overhead of the
        /// cache.
        const ENTRY_BYTES: u64 = 128;
        len_u64(value.weight_bytes()).saturating_add(ENTRY_BYTES)
    }
}

/// A sharded cache of shared values with a budget in bytes. No lock is held while a value is made.
#[derive(Debug)]
pub struct ByteCache<K, V: Weight + ?Sized> {
    values: Cache<K, Arc<V>, ByBytes>,
}

impl<K: Hash + Eq + Clone, V: Weight + ?Sized> ByteCache<K, V> {
    /// Returns an empty cache of about `budget_bytes`, for values of about `typical_bytes`. The
    /// number of shards follows from both, so that the typical value fits into a shard.
    pub fn new(budget_bytes: u64, typical_bytes: u64) -> Self {
        let items = budget_bytes.checked_div(typical_bytes).unwrap_or(1);
        Self {
            values: Cache::with_weighter(index(items), budget_bytes, ByBytes),
        }
    }

    /// Returns the cached value, if there is one.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.values.get(key)
    }

    /// Returns true if there is a cached value.
    pub fn contains(&self, key: &K) -> bool {
        self.values.contains_key(key)
    }

    /// Adds a value.
    pub fn insert(&self, key: K, value: Arc<V>) {
        self.values.insert(key, value);
    }

    /// Returns the cached value; if there is none, it calls `make` and caches the result. Threads
    /// that want the same value wait for the one that makes it.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get_or_make<E>(
        &self,
        key: &K,
        make: impl FnOnce() -> std::result::Result<Arc<V>, E>,
    ) -> std::result::Result<Arc<V>, E> {
        self.values.get_or_insert_with(key, make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_the_budget_holds() {
        let cache = ByteCache::<u32, [u8]>::new(64 << 10, 4096);
        let block = |fill: u8| -> Arc<[u8]> { vec![fill; 4096].into() };
        let made = cache.get_or_make(&1, || Ok::<_, ()>(block(7))).unwrap();
        assert_eq!(made[0], 7);
        let again = cache.get_or_make(&1, || Err("made twice")).unwrap();
        assert!(Arc::ptr_eq(&made, &again));
        assert_eq!(cache.get_or_make(&2, || Err("failed")), Err("failed"));
        assert!(!cache.contains(&2));
        for key in 10..100 {
            cache.insert(key, block(1));
        }
        let kept = (10..100).filter(|key| cache.get(key).is_some()).count();
        assert!(kept < 17, "{kept}");
    }
}
