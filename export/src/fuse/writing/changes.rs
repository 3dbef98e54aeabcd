//! Change counters of directories, which tell whether the names in one may have changed.

use std::sync::atomic::{AtomicU64, Ordering};

use diskfs_vfs::InodeNumber;

/// The number of counters. Directories share them; a collision costs a superfluous look-up.
const COUNTERS: usize = 1024;

/// The counters of name changes. They are complete: nobody else writes to the image.
#[derive(Debug)]
pub(super) struct Changes {
    counters: Box<[AtomicU64]>,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self {
            counters: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn counter(&self, dir: InodeNumber) -> &AtomicU64 {
        // The remainder fits.
        let index = usize::try_from(dir.0 % COUNTERS as u64).unwrap_or_default();
        &self.counters[index]
    }

    /// Returns a directory's counter, which differs after each change.
    pub(super) fn of(&self, dir: InodeNumber) -> u64 {
        self.counter(dir).load(Ordering::Acquire)
    }

    /// Records that names in `dir` changed.
    pub(super) fn note(&self, dir: InodeNumber) {
        self.counter(dir).fetch_add(1, Ordering::Release);
    }
}
