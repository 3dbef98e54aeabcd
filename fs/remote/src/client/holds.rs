//! Which files are held.
//!
//! The agent is told nothing of a hold: it keeps what loses its last name, says so, and is told when
//! the last hold ends.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::InodeNumber;

/// Holds, and what the agent keeps for them.
#[derive(Debug, Default)]
pub(super) struct Holds {
    counts: diskfs_vfs::Holds,
    /// What the agent keeps until it is told otherwise.
    kept: Mutex<HashSet<InodeNumber>>,
}

/// Whether the agent must be told that a file is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the agent keeps the file until it is told"]
pub(super) enum Tell {
    Release,
    Nothing,
}

impl Holds {
    fn kept_files(&self) -> MutexGuard<'_, HashSet<InodeNumber>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if anything at all is held.
    pub(super) fn are_any(&self) -> bool {
        !self.counts.is_empty()
    }

    pub(super) fn hold(&self, inode: InodeNumber) {
        self.counts.add(inode);
    }

    pub(super) fn release(&self, inode: InodeNumber) -> Tell {
        if self.counts.remove(inode) && self.kept_files().remove(&inode) {
            return Tell::Release;
        }
        Tell::Nothing
    }

    /// Notes that the agent keeps a file.
    pub(super) fn kept(&self, inode: InodeNumber) -> Tell {
        // A release that ends the last hold meanwhile looks here afterwards.
        let mut kept = self.kept_files();
        if !self.counts.contains(inode) {
            return Tell::Release;
        }
        kept.insert(inode);
        Tell::Nothing
    }
}
