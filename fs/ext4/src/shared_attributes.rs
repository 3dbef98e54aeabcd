//! The places of attribute blocks and value inodes that files can share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::FsBlock;

/// The most blocks and values that are remembered. What is forgotten is shared no more with new files.
const REMEMBERED_MAX: usize = 4096;

/// The blocks and values that can be shared, behind one lock, which whoever changes how many refer to something holds.
#[derive(Debug, Default)]
pub(crate) struct SharedAttributes {
    found: Mutex<Found>,
}

/// By hash, the last one that was seen. It may be gone or changed, so it is compared.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) blocks: HashMap<u32, FsBlock>,
    pub(crate) values: HashMap<u32, u32>,
}

impl SharedAttributes {
    /// Whoever has this waits for no commit: others that hold a handle may wait for it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Found> {
        // It is only a memory of where to look.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers where something with this hash is.
pub(crate) fn remember<V>(found: &mut HashMap<u32, V>, hash: u32, what: V) {
    if found.len() >= REMEMBERED_MAX {
        found.clear();
    }
    found.insert(hash, what);
}
