//! The store for the tables of an image that is being written.
//!
//! Slices are changed in place, so there must never be two of the same piece of a table. A slice
//! with a reference to it, because it is dirty or in use, is not evicted.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use diskfs_block::Result;

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::cache::{TableKey, TableSlice};

/// The number of shards. Threads rarely contend for one of so many locks.
const SHARDS: u64 = 16;
/// The smallest number of slices in a shard, whatever the budget.
const SLICES_MIN: u64 = 4;

/// The slices of tables by their key.
#[derive(Debug)]
pub(crate) struct TableStore {
    shards: Vec<RwLock<Shard>>,
    /// The largest number of slices in one shard.
    slices_max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    slices: HashMap<TableKey, Arc<TableSlice>>,
    /// The number of removed slices. A slice that was read before a removal may be older than the
    /// removed one.
    removals: u64,
}

impl TableStore {
    /// Creates a store for slices of `slice_bytes`. `budget_bytes` limits the slices that are not
    /// in use.
    pub(crate) fn new(budget_bytes: u64, slice_bytes: u64) -> Self {
        let per_shard = budget_bytes
            .checked_div(slice_bytes.saturating_add(128).saturating_mul(SHARDS))
            .unwrap_or(0)
            .max(SLICES_MIN);
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            slices_max: to_usize(per_shard),
        }
    }

    /// Returns the slice, and loads it if it is missing. `load` may be called more than once, and
    /// other threads do not wait for it.
    pub(crate) fn get_or_load(
        &self,
        key: TableKey,
        load: impl Fn() -> Result<Option<Arc<TableSlice>>>,
    ) -> Result<Option<Arc<TableSlice>>> {
        loop {
            let removals = {
                let shard = self.read(key);
                if let Some(slice) = shard.slices.get(&key) {
                    slice.mark_used();
                    return Ok(Some(Arc::clone(slice)));
                }
                shard.removals
            };
            let Some(slice) = load()? else {
                return Ok(None);
            };
            let mut shard = self.write(key);
            if let Some(slice) = shard.slices.get(&key) {
                return Ok(Some(Arc::clone(slice)));
            }
            if shard.removals == removals {
                shard.make_room(self.slices_max);
                shard.slices.insert(key, Arc::clone(&slice));
                return Ok(Some(slice));
            }
        }
    }

    /// Removes a slice, because the table moves to another place.
    pub(crate) fn remove(&self, key: TableKey) {
        let mut shard = self.write(key);
        shard.slices.remove(&key);
        shard.removals = shard.removals.wrapping_add(1);
    }

    fn shard(&self, key: TableKey) -> &RwLock<Shard> {
        let (TableKey::L1(_, index) | TableKey::L2(_, index) | TableKey::Refcounts(_, index)) = key;
        let count = to_u64(self.shards.len());
        let number = to_usize(index.checked_rem(count).unwrap_or(0));
        #[expect(clippy::indexing_slicing, reason = "the number is below the length")]
        &self.shards[number]
    }

    fn read(&self, key: TableKey) -> RwLockReadGuard<'_, Shard> {
        let shard = self.shard(key).read();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: TableKey) -> RwLockWriteGuard<'_, Shard> {
        let shard = self.shard(key).write();
        shard.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Evicts a quarter of the slices if there are `slices_max`: those without references and not
    /// used recently.
    fn make_room(&mut self, slices_max: usize) {
        if self.slices.len() < slices_max {
            return;
        }
        let before = self.slices.len();
        let mut left = before.div_ceil(4);
        self.slices.retain(|_, slice| {
            if left == 0 || Arc::strong_count(slice) > 1 || slice.take_used() {
                return true;
            }
            left = left.saturating_sub(1);
            false
        });
        if self.slices.len() < before {
            self.removals = self.removals.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qcow2::cache::LayerId;
    use crate::qcow2::units::HostOffset;

    fn key(index: u64) -> TableKey {
        TableKey::L2(LayerId(1), index)
    }

    fn slice(index: u64) -> Arc<TableSlice> {
        Arc::new(TableSlice::zeroed(HostOffset(index), 512))
    }

    #[test]
    fn what_is_held_stays() {
        let store = TableStore::new(0, 512);
        let held = store
            .get_or_load(key(0), || Ok(Some(slice(0))))
            .unwrap()
            .unwrap();
        held.set_word(3, 7);
        for round in 1..100 {
            let index = round * SHARDS;
            store
                .get_or_load(key(index), || Ok(Some(slice(index))))
                .unwrap();
        }
        let again = store
            .get_or_load(key(0), || Ok(Some(slice(0))))
            .unwrap()
            .unwrap();
        assert_eq!(again.word(3), 7);
        assert!(store.read(key(0)).slices.len() <= 5);
    }

    /// A slice that was read before a removal is not put in the place of the removed one.
    #[test]
    fn what_is_old_is_loaded_again() {
        let store = TableStore::new(1 << 20, 512);
        let calls = std::cell::Cell::new(0);
        let loaded = store.get_or_load(key(5), || {
            calls.set(calls.get() + 1);
            if calls.get() == 1 {
                store.remove(key(5));
            }
            Ok(Some(slice(calls.get())))
        });
        assert_eq!(loaded.unwrap().unwrap().at(), HostOffset(2));
        assert!(store.get_or_load(key(6), || Ok(None)).unwrap().is_none());
    }
}
