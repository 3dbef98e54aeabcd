//! Forking this process.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix has fork; starting the program again would take a third of a mount's time"
)]

use std::io;

use rustix::process::Pid;

/// The side of a fork.
pub(super) enum Fork {
    /// The original process, with the ID of the new one.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Forks this process, which must have only one thread.
///
/// # Errors
/// If the process has more threads, or if the host has no resources for another process.
pub(super) fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other(
            "cannot fork a process with several threads",
        ));
    }
    // SAFETY: fork is unsound if another thread may hold a lock (the allocator's, for example),
    // which nobody would release in the child. There is no other thread: the threads were just
    // counted, and only this one could start another.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => Ok(Fork::Child),
        pid => match Pid::from_raw(pid) {
            Some(child) if pid > 0 => Ok(Fork::Parent(child)),
            _ => Err(io::Error::last_os_error()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_threads_are_refused() {
        // The test runs on its own thread, besides the main thread.
        assert!(fork().is_err());
    }
}
