//! The locks of inodes: shared for readers of a file, exclusive for writers.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::bytes::index;

/// The number of locks: inodes share locks by number. There are so many that two files written at
/// the same time seldom share one.
const STRIPES: usize = 1024;

/// The inode locks. An operation takes all the locks that it needs at once, lowest first, and takes
/// no more until it has released them. So no lock order among files is needed.
#[derive(Debug)]
pub(crate) struct InodeLocks {
    stripes: Box<[RwLock<()>]>,
}

/// The exclusive locks of some inodes: nobody else reads or changes them.
#[derive(Debug)]
#[must_use]
pub(crate) struct Exclusive<'a> {
    _guards: Vec<RwLockWriteGuard<'a, ()>>,
}

impl InodeLocks {
    pub(crate) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| RwLock::default()).collect(),
        }
    }

    fn stripe(inode: u32) -> usize {
        index(inode).checked_rem(STRIPES).unwrap_or(0)
    }

    /// Waits until nobody changes the inode. A thread holds at most one of these locks, and none
    /// while it calls [`exclusive`](Self::exclusive).
    pub(crate) fn shared(&self, inode: u32) -> Option<RwLockReadGuard<'_, ()>> {
        let stripe = self.stripes.get(Self::stripe(inode))?;
        // A poisoned lock is safe to use: the guarded data is elsewhere, and a panic leaves it
        // consistent.
        Some(stripe.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until nobody else reads or changes any of these inodes.
    pub(crate) fn exclusive(&self, inodes: &[u32]) -> Exclusive<'_> {
        let mut wanted: Vec<usize> = inodes.iter().map(|&inode| Self::stripe(inode)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let stripes = wanted.into_iter().filter_map(|nth| self.stripes.get(nth));
        let guards = stripes.map(|stripe| stripe.write().unwrap_or_else(PoisonError::into_inner));
        Exclusive {
            _guards: guards.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_that_share_a_lock_take_it_once() {
        let locks = InodeLocks::new();
        let far = u32::try_from(STRIPES).unwrap();
        let both = locks.exclusive(&[5, 5 + far, 3]);
        assert!(locks.stripes[5].try_read().is_err());
        assert!(locks.stripes[4].try_read().is_ok());
        drop(both);
        assert!(locks.shared(5 + far).is_some());
    }
}
