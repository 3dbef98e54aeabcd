//! A thread that has the host write a file while it is filled.

use std::fs::File;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

/// The time between two requests.
const INTERVAL: Duration = Duration::from_millis(20);

/// A thread that has the host write a file to its disk while it is filled, so that little is left
/// to write at the end. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct EarlyWrites {
    /// Only its end is noticed.
    _running: Sender<()>,
}

impl EarlyWrites {
    /// Starts the thread. Without one, the host decides when to write.
    pub(super) fn start(file: &File) -> Option<Self> {
        let file = file.try_clone().ok()?;
        let (running, ended) = channel();
        let thread = thread::Builder::new().name("early-writes".into());
        let started = thread.spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // This begins to write what has changed, and waits for nothing (posix_fadvise(2)).
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
            }
        });
        started.ok().map(|_| Self { _running: running })
    }
}
