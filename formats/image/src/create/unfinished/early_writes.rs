//! A thread that has the host write a file while it is filled.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The pause after everything was written.
const INTERVAL: Duration = Duration::from_millis(20);

/// A thread that has the host write a file to its disk while it is filled, so that little is left
/// to write at the end. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct EarlyWrites {
    /// Only its end is noticed.
    _running: Sender<()>,
}

impl EarlyWrites {
    /// Starts the thread, for the file that can be opened by this path. Without one, the host
    /// decides when to write.
    pub(super) fn start(path: &Path) -> Option<Self> {
        // Another descriptor of the same opening would take errors away from the end.
        let file = File::open(path).ok()?;
        let (running, ended) = channel();
        let thread = thread::Builder::new().name("early-writes".into());
        let started = thread.spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // The end tells the error, too.
                let _ = file.sync_data();
            }
        });
        started.ok().map(|_| Self { _running: running })
    }
}
