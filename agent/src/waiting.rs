//! Waiting for short actions of the kernel.

use std::thread;
use std::time::{Duration, Instant};

/// The time of busy-polling before sleeping. Usually the kernel's thread only needs to be
/// scheduled, while sleeping takes at least two ticks, 20 ms in User Mode Linux.
const SOON: Duration = Duration::from_millis(50);

/// Pauses between two polls of a condition that has been awaited since `began`.
pub(crate) fn pause(began: Instant) {
    if began.elapsed() < SOON {
        thread::yield_now();
    } else {
        thread::sleep(Duration::from_millis(1));
    }
}
