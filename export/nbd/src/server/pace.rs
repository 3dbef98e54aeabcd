//! The choice of the thread for a request.
//!
//! A hand-over to another thread costs more than a read from the page cache. So a short request is
//! done at once, on the thread of the connection, as long as the device has been quick. If it isn't,
//! the connection's other requests wait for it, and those of others do not. A request that comes
//! alone may take longer for that than one of many, which a disk can work on in parallel.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::protocol::{Command, CommandFlags};

/// The longest request that is done at once if it comes alone, and the time within which a quick
/// device answers it.
const MAX_BYTES: u64 = 1 << 20;
const QUICK: Duration = Duration::from_millis(1);

/// Length and time of one request of many: a copy from the page cache takes a tenth of the time, a
/// disk takes longer.
const MAX_BYTES_OF_MANY: u64 = 64 << 10;
const QUICK_OF_MANY: Duration = Duration::from_micros(50);

/// The number of requests that are handed over after one that was not quick; doubled each time.
const FIRST_PENALTY: u32 = 32;
const MAX_PENALTY: u32 = 8192;

/// The number of quick requests after which the penalty is the first one again: a busy host may
/// also delay a quick device.
const FORGIVEN_AFTER: u32 = 16;

/// The pace of one connection's requests that come alone, or of the others.
#[derive(Debug)]
pub(super) struct Pace {
    /// The longest request that is done at once.
    max_bytes: u64,
    /// The time within which a quick device answers.
    quick_time: Duration,
    /// The number of requests that are still handed over.
    left: AtomicU32,
    /// The penalty of the next request that is not quick.
    penalty: AtomicU32,
    /// The number of quick requests since the last one that was not.
    quick: AtomicU32,
}

impl Pace {
    /// Creates the pace of requests that come alone.
    pub(super) const fn of_one() -> Self {
        Self::new(MAX_BYTES, QUICK)
    }

    /// Creates the pace of requests that come while others are in progress.
    pub(super) const fn of_many() -> Self {
        Self::new(MAX_BYTES_OF_MANY, QUICK_OF_MANY)
    }

    const fn new(max_bytes: u64, quick_time: Duration) -> Self {
        Self {
            max_bytes,
            quick_time,
            left: AtomicU32::new(0),
            penalty: AtomicU32::new(FIRST_PENALTY),
            quick: AtomicU32::new(0),
        }
    }

    /// Returns true if a request may be done at once.
    pub(super) fn is_quick(&self, command: Command, flags: CommandFlags, len_bytes: u64) -> bool {
        let is_short = matches!(command, Command::Read | Command::Write)
            && len_bytes <= self.max_bytes
            && !flags.contains(CommandFlags::FUA);
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        }
        is_short && left == 0
    }

    /// Does a request at once, and records how quick it was.
    pub(super) fn time(&self, work: impl FnOnce()) {
        let begun = Instant::now();
        work();
        if begun.elapsed() > self.quick_time {
            let penalty = self.penalty.load(Ordering::Relaxed);
            self.left.store(penalty, Ordering::Relaxed);
            let next = penalty.saturating_mul(2).min(MAX_PENALTY);
            self.penalty.store(next, Ordering::Relaxed);
            self.quick.store(0, Ordering::Relaxed);
        } else if self.quick.fetch_add(1, Ordering::Relaxed) == FORGIVEN_AFTER {
            self.penalty.store(FIRST_PENALTY, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_device_is_not_waited_for_again_and_again() {
        let pace = Pace::of_one();
        let read = |pace: &Pace| pace.is_quick(Command::Read, CommandFlags::empty(), 4096);
        assert!(read(&pace));
        pace.time(|| ());
        assert!(read(&pace));
        for penalty in [FIRST_PENALTY, 2 * FIRST_PENALTY] {
            pace.time(|| std::thread::sleep(2 * QUICK));
            for _ in 0..penalty {
                assert!(!read(&pace));
            }
            assert!(read(&pace));
        }
        assert!(!pace.is_quick(Command::Flush, CommandFlags::empty(), 0));
        assert!(!pace.is_quick(Command::Write, CommandFlags::FUA, 512));
        assert!(!pace.is_quick(Command::Read, CommandFlags::empty(), 2 << 20));
    }
}
