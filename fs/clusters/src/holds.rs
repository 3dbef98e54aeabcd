//! Files that somebody keeps alive without a name, as an open file is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::InodeNumber;
use foldhash::HashMap;

/// How often each file is held.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    counts: Mutex<HashMap<InodeNumber, u64>>,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, HashMap<InodeNumber, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One hold more.
    pub(crate) fn add(&self, inode: InodeNumber) {
        let mut counts = self.lock();
        let count = counts.entry(inode).or_default();
        *count = count.saturating_add(1);
    }

    /// One hold less. Returns whether it was the last.
    pub(crate) fn remove(&self, inode: InodeNumber) -> bool {
        let mut counts = self.lock();
        let Some(count) = counts.get_mut(&inode) else {
            return false;
        };
        *count = count.saturating_sub(1);
        let is_last = *count == 0;
        if is_last {
            counts.remove(&inode);
        }
        is_last
    }

    /// Whether somebody holds it.
    pub(crate) fn contains(&self, inode: InodeNumber) -> bool {
        self.lock().contains_key(&inode)
    }

    /// Ends all holds.
    pub(crate) fn end_all(&self) {
        self.lock().clear();
    }
}
