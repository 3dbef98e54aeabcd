//! The places of xattr blocks and value inodes that files can share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::FsBlock;

/// The maximum number of blocks and of values that are remembered. New files do not share the ones
/// that are no longer remembered.
const REMEMBERED_MAX: usize = 4096;

/// The blocks and values that can be shared, behind one lock. A thread that changes a
/// reference count holds this lock.
#[derive(Debug, Default)]
pub(crate) struct SharedAttributes {
    found: Mutex<KnownPlaces>,
}

/// For each hash, the last block or value with it. It may have been changed or freed, so it must be
/// compared before use.
#[derive(Debug, Default)]
pub(crate) struct KnownPlaces {
    pub(crate) blocks: HashMap<u32, FsBlock>,
    pub(crate) values: HashMap<u32, u32>,
}

impl SharedAttributes {
    /// Takes the lock. Its holder must not wait for a commit: others that hold a handle may wait
    /// for the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, KnownPlaces> {
        // A poisoned lock is safe to use: the maps only say where to look.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers where a block or value with this hash is.
pub(crate) fn remember<V>(found: &mut HashMap<u32, V>, hash: u32, what: V) {
    if found.len() >= REMEMBERED_MAX {
        found.clear();
    }
    found.insert(hash, what);
}
