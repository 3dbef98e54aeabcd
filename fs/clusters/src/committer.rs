//! The background thread that commits at regular intervals.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diskfs_vfs::{Error, ErrorKind, Result};

/// The commit thread with the channel that stops it. Dropping the committer stops the thread, too.
#[derive(Debug)]
pub(crate) struct Committer(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl Committer {
    /// Starts a thread that calls `commit` after each `interval`, until `commit` returns
    /// [`ThreadControl::No`]. Starts no thread if there is no interval.
    ///
    /// # Errors
    /// `Io` if the thread cannot be started.
    pub(crate) fn start(
        name: &str,
        interval: Option<Duration>,
        mut commit: impl FnMut() -> ThreadControl + Send + 'static,
    ) -> Result<Self> {
        let Some(interval) = interval else {
            return Ok(Self(Mutex::new(None)));
        };
        let (end, ended) = channel();
        let work = move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if commit() == ThreadControl::No {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work);
        let thread = thread.map_err(|e| {
            Error::new(ErrorKind::Io, "cannot start the commit thread").with_source(e)
        })?;
        Ok(Self(Mutex::new(Some((end, thread)))))
    }

    /// Stops the thread, and waits until it has ended.
    pub(crate) fn stop(&self) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((end, thread)) = running.take() {
            drop(end);
            // A panic of the thread has been reported already, and no state of ours is lost with
            // it.
            let _ = thread.join();
        }
    }
}

/// The answer of a commit: whether the thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadControl {
    /// Commit again after the interval.
    Yes,
    /// Stop: nothing is left to commit.
    No,
}
