//! What of the changes is durable: for a caller that gives up.

use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_vfs::Remains;

use crate::error::Result;

use super::Core;

/// What was committed since the filesystem was opened.
#[derive(Debug)]
pub(crate) struct Durable {
    /// Nothing had to be recovered when it was opened.
    was_clean: bool,
    some: AtomicBool,
    all: AtomicBool,
    /// A commit failed, and may be durable all the same.
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

    /// A commit begins that has something in it.
    pub(super) fn begin(&self) {
        self.doubtful.store(true, Ordering::SeqCst);
    }

    /// It is durable.
    pub(super) fn commit(&self) {
        self.some.store(true, Ordering::SeqCst);
        self.doubtful.store(false, Ordering::SeqCst);
    }

    /// Nothing is left to be committed.
    pub(crate) fn note_all(&self) {
        self.all.store(true, Ordering::SeqCst);
    }

    /// What was committed until now belongs to nobody's changes.
    fn forget(&self) {
        self.some.store(false, Ordering::SeqCst);
    }
}

impl Core {
    /// Begins changes that belong together, with a transaction of their own: orphans that the filesystem had when it
    /// was opened are none of them.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn begin_together(&self) -> Result<()> {
        self.sync()?;
        self.durable.forget();
        self.transactions.begin_together(self.together);
        Ok(())
    }

    /// What is durable of the changes, when writing has ended. A commit that failed is taken back, where the device lets
    /// it; and if nothing was changed, the filesystem is said to be clean again.
    pub(crate) fn remains(&self) -> Remains {
        let durable = &self.durable;
        if durable.doubtful.load(Ordering::SeqCst) {
            match self.log().and_then(|mut log| log.take_back(self)) {
                Ok(()) => durable.doubtful.store(false, Ordering::SeqCst),
                Err(e) => {
                    tracing::debug!("a commit can't be taken back: {e}");
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
            // As after a crash: whoever opens it next recovers it, from an empty log.
            tracing::debug!("the filesystem can't be marked clean: {e}");
        }
        Remains::Nothing
    }
}
