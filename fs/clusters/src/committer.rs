//! A thread that commits from time to time.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diskfs_vfs::{Error, ErrorKind, Result};

/// The thread, and what ends it. It ends when this is dropped, too.
#[derive(Debug)]
pub(crate) struct Committer(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl Committer {
    /// Calls `commit` each time that the interval has passed, until it answers that it was the last.
    /// Without an interval there is no thread.
    ///
    /// # Errors
    /// `Io` when no thread can be started.
    pub(crate) fn start(
        name: &str,
        interval: Option<Duration>,
        mut commit: impl FnMut() -> Again + Send + 'static,
    ) -> Result<Self> {
        let Some(interval) = interval else {
            return Ok(Self(Mutex::new(None)));
        };
        let (end, ended) = channel();
        let work = move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if commit() == Again::No {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work);
        let thread = thread.map_err(|e| {
            Error::new(ErrorKind::Io, "no thread can be started to write back").with_source(e)
        })?;
        Ok(Self(Mutex::new(Some((end, thread)))))
    }

    /// Ends the thread, and returns when it has ended.
    pub(crate) fn stop(&self) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((end, thread)) = running.take() {
            drop(end);
            // If it panicked, that is told by the panic; nothing of ours is lost.
            let _ = thread.join();
        }
    }
}

/// Whether a commit is followed by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// After the interval.
    Yes,
    /// There is nothing more to commit.
    No,
}
