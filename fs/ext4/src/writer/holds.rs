//! Files that somebody keeps alive without a name, as an open file is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bytes::index;
use crate::hashing::HashMap;

const SHARDS: usize = 16;

/// How often each inode is held.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    shards: [Mutex<HashMap<u32, u64>>; SHARDS],
}

impl Holds {
    fn shard(&self, inode: u32) -> MutexGuard<'_, HashMap<u32, u64>> {
        let nth = index(inode).checked_rem(SHARDS).unwrap_or(0);
        let [first, ..] = &self.shards;
        let shard = self.shards.get(nth).unwrap_or(first);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One hold more.
    pub(crate) fn add(&self, inode: u32) {
        let mut shard = self.shard(inode);
        let count = shard.entry(inode).or_default();
        *count = count.saturating_add(1);
    }

    /// One hold less. Returns whether it was the last.
    pub(crate) fn remove(&self, inode: u32) -> bool {
        let mut shard = self.shard(inode);
        let Some(count) = shard.get_mut(&inode) else {
            return false;
        };
        *count = count.saturating_sub(1);
        if *count > 0 {
            return false;
        }
        shard.remove(&inode);
        true
    }

    /// Ends all holds.
    pub(crate) fn end_all(&self) {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Whether somebody holds it.
    pub(crate) fn contains(&self, inode: u32) -> bool {
        self.shard(inode).contains_key(&inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_until_released_as_often() {
        let holds = Holds::default();
        holds.add(5);
        holds.add(5);
        assert!(!holds.remove(5));
        assert!(holds.contains(5));
        assert!(holds.remove(5));
        assert!(!holds.contains(5));
        assert!(!holds.remove(5));
        holds.add(6);
        holds.end_all();
        assert!(!holds.contains(6));
    }
}
