//! Fetches in progress, which several threads may wait for.

use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use bytes::Bytes;
use diskfs_block::{Error, ErrorKind, Result};

/// A failure that all waiting threads get.
#[derive(Debug, Clone)]
struct Failed {
    kind: ErrorKind,
    reason: String,
    hint: Option<String>,
}

/// A range that is being fetched.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// The range in the object, in bytes.
    pub(crate) range: Range<u64>,
    done: Mutex<Option<std::result::Result<Bytes, Failed>>>,
    finished: Condvar,
}

impl Fetch {
    /// Creates a fetch that has not begun.
    pub(crate) fn new(range: Range<u64>) -> Self {
        Self {
            range,
            done: Mutex::default(),
            finished: Condvar::new(),
        }
    }

    /// Ends the fetch, and wakes the threads that wait.
    pub(crate) fn finish(&self, result: Result<Bytes>) {
        let result = result.map_err(|error| Failed {
            kind: error.kind(),
            reason: error.reason().to_owned(),
            hint: error.next_step().map(Into::into),
        });
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.finished.notify_all();
    }

    /// Waits for the bytes of the range.
    pub(crate) fn wait(&self) -> Result<Bytes> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*done {
                Some(Ok(bytes)) => return Ok(bytes.clone()),
                Some(Err(failed)) => return Err(failed.error().at(self.range.start)),
                None => {}
            }
            let woken = self.finished.wait(done);
            done = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Failed {
    fn error(&self) -> Error {
        let error = Error::new(self.kind, self.reason.clone());
        match &self.hint {
            Some(hint) => error.with_hint(hint.clone()),
            None => error,
        }
    }
}
