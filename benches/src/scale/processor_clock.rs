//! The clock of a process's processor time, which neither std nor rustix has for other processes.
#![expect(unsafe_code, reason = "two calls of libc that fill a value")]

use std::time::Duration;

use anyhow::{Result, ensure};

/// Returns the processor time of all threads of a process so far; 0 is the caller.
///
/// # Errors
/// The process does not exist.
pub(super) fn read(pid: libc::pid_t) -> Result<Duration> {
    let mut clock = 0;
    // SAFETY: the pointer is to a live, writable value of the type that the call fills.
    let code = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    ensure!(code == 0, "process {pid} has no clock: error {code}");
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live, writable value of the type that the call fills.
    let code = unsafe { libc::clock_gettime(clock, &raw mut time) };
    ensure!(code == 0, "process {pid} has ended");
    Ok(Duration::new(
        time.tv_sec.try_into()?,
        time.tv_nsec.try_into()?,
    ))
}
