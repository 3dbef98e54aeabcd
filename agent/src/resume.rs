//! The start of a machine by the host's handshake.
//!
//! A machine that was restored from a saved state has the time and the random state of that
//! machine, and has not seen the disks that it was given since.

use std::fs;

use diskfs_remote::server::HostHello;
use rustix::time::{ClockId, Timespec, clock_settime};

use crate::kernel_calls::reseed;
use crate::kernel_log::log;

/// The file that makes the kernel scan for PCI devices again.
const RESCAN: &str = "/sys/bus/pci/rescan";

/// Sets the host's time, and adds the host's random bytes to the kernel's entropy.
pub(crate) fn apply_handshake(host_hello: &HostHello) {
    if let Ok(now) = diskfs_vfs::Timestamp::try_from(host_hello.now) {
        let now = Timespec {
            tv_sec: now.seconds,
            tv_nsec: now.nanoseconds.into(),
        };
        if let Err(errno) = clock_settime(ClockId::Realtime, now) {
            log(&format!("cannot set the clock: {errno}"));
        }
    }
    let stirred = fs::write("/dev/urandom", host_hello.seed).and_then(|()| reseed());
    if let Err(error) = stirred {
        log(&format!("cannot seed the random generator: {error}"));
    }
}

/// Finds the disks that were added since the machine's state was saved.
pub(crate) fn find_disks() {
    if let Err(error) = fs::write(RESCAN, "1") {
        log(&format!("cannot scan for disks: {error}"));
    }
}
