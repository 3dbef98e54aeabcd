//! The last run of data that reads have found.

use std::sync::atomic::{AtomicU64, Ordering};

/// A run that is known as data.
///
/// Finding the end of a run can mean a walk over the rest of the file (tmpfs), so the answer serves
/// the following reads, too. Nothing goes wrong if it is old, or a mixture of two runs: then zeroes
/// of a hole are read as data.
#[derive(Debug, Default)]
pub(super) struct DataRun {
    start: AtomicU64,
    end: AtomicU64,
}

impl DataRun {
    /// Returns the number of bytes from `at` on that are known as data.
    pub(super) fn left_bytes(&self, at: u64) -> u64 {
        if at < self.start.load(Ordering::Relaxed) {
            return 0;
        }
        self.end.load(Ordering::Relaxed).saturating_sub(at)
    }

    pub(super) fn set(&self, at: u64, len_bytes: u64) {
        self.start.store(at, Ordering::Relaxed);
        self.end
            .store(at.saturating_add(len_bytes), Ordering::Relaxed);
    }

    /// Forgets the run, in which a hole may come.
    pub(super) fn forget(&self) {
        self.end.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_known_from_its_start_to_its_end() {
        let run = DataRun::default();
        assert_eq!(run.left_bytes(0), 0);
        run.set(100, 50);
        for (at, left_bytes) in [(99, 0), (100, 50), (149, 1), (150, 0), (u64::MAX, 0)] {
            assert_eq!(run.left_bytes(at), left_bytes, "{at}");
        }
        run.forget();
        assert_eq!(run.left_bytes(100), 0);
    }
}
