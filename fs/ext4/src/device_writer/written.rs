//! The count of writes to the device, and how many of them are known to be durable.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts since the filesystem was opened.
#[derive(Debug, Default)]
pub(crate) struct WriteCounts {
    bytes: AtomicU64,
    /// The number of completed writes. A write is counted at its end, so that a flush that ran at
    /// the same time does not cover it.
    writes: AtomicU64,
    /// The number of writes that are durable.
    durable: AtomicU64,
}

/// A point in the sequence of writes, for [`WriteCounts::became_durable`].
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteMark(u64);

impl WriteCounts {
    /// Counts a write that was done, or that failed halfway.
    pub(super) fn note(&self, len_bytes: u64) {
        self.bytes.fetch_add(len_bytes, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn kbytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).wrapping_shr(10)
    }

    /// Returns the current point.
    pub(super) fn done(&self) -> WriteMark {
        WriteMark(self.writes.load(Ordering::SeqCst))
    }

    /// Notes that a flush which began after `done` succeeded.
    pub(super) fn became_durable(&self, done: WriteMark) {
        self.durable.fetch_max(done.0, Ordering::SeqCst);
    }

    /// Returns true if all completed writes are durable.
    pub(super) fn is_durable(&self) -> bool {
        let WriteMark(done) = self.done();
        self.durable.load(Ordering::SeqCst) >= done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_not_for_what_came_during_it() {
        let written = WriteCounts::default();
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
