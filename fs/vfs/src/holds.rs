//! Files that are kept alive without a name, as open files are.

use std::array;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use foldhash::fast::RandomState;

use crate::metadata::InodeNumber;

/// The number of locks, so that files can be opened concurrently.
const SHARDS: usize = 16;

/// The number of holds of each file.
#[derive(Debug)]
pub struct Holds<N = InodeNumber> {
    hasher: RandomState,
    shards: [Mutex<HashMap<N, u64>>; SHARDS],
}

impl<N> Default for Holds<N> {
    /// Returns a value without holds.
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            shards: array::from_fn(|_| Mutex::default()),
        }
    }
}

impl<N: Copy + Eq + Hash> Holds<N> {
    fn shard(&self, file: N) -> MutexGuard<'_, HashMap<N, u64>> {
        let [low, ..] = self.hasher.hash_one(file).to_le_bytes();
        let nth = usize::from(low).checked_rem(SHARDS).unwrap_or(0);
        let [first, ..] = &self.shards;
        lock(self.shards.get(nth).unwrap_or(first))
    }

    /// Adds a hold.
    pub fn add(&self, file: N) {
        let mut counts = self.shard(file);
        let count = counts.entry(file).or_default();
        *count = count.saturating_add(1);
    }

    /// Removes a hold. Returns true if it was the file's last.
    pub fn remove(&self, file: N) -> bool {
        let mut counts = self.shard(file);
        let Some(count) = counts.get_mut(&file) else {
            return false;
        };
        *count = count.saturating_sub(1);
        let is_last = *count == 0;
        if is_last {
            counts.remove(&file);
        }
        is_last
    }

    /// Returns true if the file is held.
    pub fn contains(&self, file: N) -> bool {
        self.shard(file).contains_key(&file)
    }

    /// Returns true if no file is held.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).is_empty())
    }

    /// Ends all holds.
    pub fn end_all(&self) {
        for shard in &self.shards {
            lock(shard).clear();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_until_released_as_often() {
        let holds = Holds::default();
        holds.add(5_u32);
        holds.add(5);
        assert!(!holds.remove(5));
        assert!(holds.contains(5) && !holds.is_empty());
        assert!(holds.remove(5));
        assert!(!holds.contains(5) && holds.is_empty());
        assert!(!holds.remove(5));
        holds.add(6);
        holds.end_all();
        assert!(!holds.contains(6));
    }
}
