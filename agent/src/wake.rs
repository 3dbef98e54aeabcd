//! What a machine learns when its host greets it.
//!
//! One that was made from the memory of another has that one's time and that one's random numbers, and has not
//! seen the disks that it was given since.

use std::fs;

use diskfs_remote::server::Greeting;
use rustix::time::{ClockId, Timespec, clock_settime};

use crate::kernel_calls::reseed;
use crate::kernel_log::log;

/// Where the kernel is told to look for devices anew.
const RESCAN: &str = "/sys/bus/pci/rescan";

/// Takes over the host's time, and its random bytes beside those that there are.
pub(crate) fn learn(greeting: &Greeting) {
    if let Ok(now) = diskfs_vfs::Timestamp::try_from(greeting.now) {
        let now = Timespec {
            tv_sec: now.seconds,
            tv_nsec: now.nanoseconds.into(),
        };
        if let Err(errno) = clock_settime(ClockId::Realtime, now) {
            log(&format!("the clock can't be set: {errno}"));
        }
    }
    let stirred = fs::write("/dev/urandom", greeting.seed).and_then(|()| reseed());
    if let Err(error) = stirred {
        log(&format!("random numbers can't be seeded: {error}"));
    }
}

/// Finds the disks that came while the machine was saved.
pub(crate) fn find_disks() {
    if let Err(error) = fs::write(RESCAN, "1") {
        log(&format!("disks can't be looked for: {error}"));
    }
}
