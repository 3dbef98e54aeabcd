//! Waiting for what the kernel is about to do.

use std::thread;
use std::time::{Duration, Instant};

/// So long it is looked again and again: the kernel's thread only needs to be run, and to sleep takes two of its
/// ticks at least, 20 ms in User Mode Linux.
const SOON: Duration = Duration::from_millis(50);

/// Waits a little, for what has been waited for since `began`.
pub(crate) fn pause(began: Instant) {
    if began.elapsed() < SOON {
        thread::yield_now();
    } else {
        thread::sleep(Duration::from_millis(1));
    }
}
