//! What was written to the device, and how much of it is known to be durable.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the filesystem was opened.
#[derive(Debug, Default)]
pub(crate) struct Written {
    bytes: AtomicU64,
    /// How many writes were done: counted when they are, so that a flush that was under way
    /// meanwhile does not count as theirs.
    writes: AtomicU64,
    /// How many of them are durable.
    durable: AtomicU64,
}

/// A moment, for [`Written::became_durable`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Done(u64);

impl Written {
    /// A write was done, or failed halfway.
    pub(super) fn note(&self, len_bytes: u64) {
        self.bytes.fetch_add(len_bytes, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn kbytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).wrapping_shr(10)
    }

    /// What is done now.
    pub(super) fn done(&self) -> Done {
        Done(self.writes.load(Ordering::SeqCst))
    }

    /// A flush that began after `done` succeeded.
    pub(super) fn became_durable(&self, done: Done) {
        self.durable.fetch_max(done.0, Ordering::SeqCst);
    }

    /// Whether all that is done is durable.
    pub(super) fn is_durable(&self) -> bool {
        let Done(done) = self.done();
        self.durable.load(Ordering::SeqCst) >= done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_not_for_what_came_during_it() {
        let written = Written::default();
        assert!(written.is_durable());
        written.note(1000);
        let done = written.done();
        written.note(1048);
        written.became_durable(done);
        assert!(!written.is_durable());
        written.became_durable(written.done());
        assert!(written.is_durable());
        assert_eq!(written.kbytes(), 2);
    }
}
