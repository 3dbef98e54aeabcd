//! A copy of this process.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix have fork; starting the program anew costs a mount a third of its time"
)]

use std::io;

use rustix::process::Pid;

/// Which of the two processes it is.
pub(super) enum Fork {
    /// The one that was there, with the number of the new one.
    Parent(Pid),
    /// The new one.
    Child,
}

/// Copies this process, which must have one thread.
///
/// # Errors
/// When it has more threads, or when the host has no room for another process.
pub(super) fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("fork in a process of several threads"));
    }
    // SAFETY: fork is unsound where another thread may hold a lock (the allocator's, say), which
    // nobody would free in the child. There is no other thread: it was just counted, and only this
    // one could start another.
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
        // The test runs on a thread of its own beside the main one.
        assert!(fork().is_err());
    }
}
