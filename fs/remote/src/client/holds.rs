//! The lookup counts of held files.
//!
//! Holds are counted only here. The agent keeps a file that loses its last name if the request says
//! so, reports that, and is told when the last hold ends.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::InodeNumber;

/// The counts of holds, and the files that the agent keeps because of them.
#[derive(Debug, Default)]
pub(super) struct Holds {
    counts: diskfs_vfs::Holds,
    /// The files that the agent keeps until it gets a release.
    kept: Mutex<HashSet<InodeNumber>>,
}

/// The decision whether the agent must get a release for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the agent keeps the file until it gets a release"]
pub(super) enum ReleaseNeeded {
    Yes,
    No,
}

impl Holds {
    fn kept_files(&self) -> MutexGuard<'_, HashSet<InodeNumber>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if any file is held.
    pub(super) fn are_any(&self) -> bool {
        !self.counts.is_empty()
    }

    pub(super) fn hold(&self, inode: InodeNumber) {
        self.counts.add(inode);
    }

    pub(super) fn release(&self, inode: InodeNumber) -> ReleaseNeeded {
        if self.counts.remove(inode) && self.kept_files().remove(&inode) {
            return ReleaseNeeded::Yes;
        }
        ReleaseNeeded::No
    }

    /// Records that the agent keeps a file.
    pub(super) fn note_kept(&self, inode: InodeNumber) -> ReleaseNeeded {
        // Lock first: a release that ends the last hold meanwhile checks `kept` afterwards.
        let mut kept = self.kept_files();
        if !self.counts.contains(inode) {
            return ReleaseNeeded::Yes;
        }
        kept.insert(inode);
        ReleaseNeeded::No
    }
}
