//! The record of which changes are durable, for a caller that abandons its changes.

use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_vfs::Remains;

use crate::error::Result;

use super::Core;

/// The record of what was committed since the filesystem was opened.
#[derive(Debug)]
pub(crate) struct Durable {
    /// True if nothing had to be recovered when the filesystem was opened.
    was_clean: bool,
    some: AtomicBool,
    all: AtomicBool,
    /// True if a commit failed, but may be durable nevertheless.
    doubtful: AtomicBool,
}

impl Durable {
    pub(crate) const fn new(was_clean: bool) -> Self {
        Self {
            was_clean,
            some: AtomicBool::new(false),
            all: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
        }
    }

    /// Notes that a commit with changes begins.
    pub(super) fn begin(&self) {
        self.doubtful.store(true, Ordering::SeqCst);
    }

    /// Notes that the commit is durable.
    pub(super) fn commit(&self) {
        self.some.store(true, Ordering::SeqCst);
        self.doubtful.store(false, Ordering::SeqCst);
    }

    /// Notes that nothing is left to be committed.
    pub(crate) fn note_all(&self) {
        self.all.store(true, Ordering::SeqCst);
    }

    /// Forgets the commits until now: they do not belong to the caller's changes.
    fn forget(&self) {
        self.some.store(false, Ordering::SeqCst);
    }
}

impl Core {
    /// Begins changes that belong together, in a transaction of their own. Deletions of orphans
    /// that existed when the filesystem was opened are not part of them.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn begin_group(&self) -> Result<()> {
        self.sync()?;
        self.durable.forget();
        self.transactions.begin_group(self.grouping);
        Ok(())
    }

    /// Returns which changes are durable after writing has stopped. A failed commit is undone if
    /// the device allows it. If nothing was changed, the filesystem is marked clean again.
    pub(crate) fn remains(&self) -> Remains {
        let durable = &self.durable;
        if durable.doubtful.load(Ordering::SeqCst) {
            match self.log().and_then(|mut log| log.undo_failed_commit(self)) {
                Ok(()) => durable.doubtful.store(false, Ordering::SeqCst),
                Err(e) => {
                    tracing::debug!("cannot undo a failed commit: {e}");
                    return Remains::Some;
                }
            }
        }
        if durable.all.load(Ordering::SeqCst) {
            return Remains::All;
        }
        if durable.some.load(Ordering::SeqCst) {
            return Remains::Some;
        }
        if durable.was_clean
            && let Err(e) = self.mark_clean()
        {
            // As after a crash: the next mount recovers the filesystem, from an empty log.
            tracing::debug!("cannot mark the filesystem clean: {e}");
        }
        Remains::Nothing
    }
}
