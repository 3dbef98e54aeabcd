//! The changes that wait for the thread.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::device::len_of;
use crate::{BlockWrite, Error, ErrorKind, Result};

/// The maximum length of a request in bytes, unless a single write is longer.
const REQUEST_BYTES: usize = 1 << 20;
/// The number of waiting bytes at which callers wait.
const WAITING_BYTES: usize = 8 << 20;
/// The number of waiting requests at which callers wait.
const WAITING_REQUESTS: usize = 1024;

/// The changes that wait for the thread, in their order.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Request>,
    waiting_bytes: usize,
    /// The start and the end of the range that the thread changes now.
    busy: Option<(u64, u64)>,
    /// The number of requests so far.
    put: u64,
    /// The number of requests that are done.
    made: u64,
    /// The number of requests that callers wait for.
    awaited: u64,
    /// True when no change can follow.
    pub(super) ends: bool,
    failure: Option<Failure>,
    /// The memory of a request that is done.
    spare: Vec<u8>,
}

/// A change of the device.
pub(super) struct Request {
    offset: u64,
    change: Change,
}

enum Change {
    Write(Vec<u8>),
    WriteZeroes(u64),
}

/// The first failure. All later calls fail with the same error.
struct Failure {
    kind: ErrorKind,
    reason: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    hint: Option<String>,
}

impl Queue {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.waiting_bytes = self.waiting_bytes.saturating_add(bytes.len());
        if self.extend(offset, bytes) {
            return;
        }
        let mut copy = std::mem::take(&mut self.spare);
        copy.clear();
        copy.extend_from_slice(bytes);
        self.put(offset, Change::Write(copy));
    }

    pub(super) fn write_zeroes(&mut self, offset: u64, len_bytes: u64) {
        self.put(offset, Change::WriteZeroes(len_bytes));
    }

    fn put(&mut self, offset: u64, change: Change) {
        self.put = self.put.saturating_add(1);
        self.waiting.push_back(Request { offset, change });
    }

    /// Adds a write to the last request, if it is adjacent and both are small enough.
    fn extend(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let Some(last) = self.waiting.back_mut() else {
            return false;
        };
        let is_adjacent = last.end() == offset;
        match &mut last.change {
            Change::Write(request)
                if is_adjacent && request.len().saturating_add(bytes.len()) <= REQUEST_BYTES =>
            {
                request.extend_from_slice(bytes);
                true
            }
            _ => false,
        }
    }

    /// Returns true if callers must wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_bytes >= WAITING_BYTES || self.waiting.len() >= WAITING_REQUESTS
    }

    /// Has all requests made that were put so far. Returns their number, for
    /// [`is_made`](Self::is_made).
    pub(super) fn await_all(&mut self) -> u64 {
        self.awaited = self.put;
        self.put
    }

    /// Returns true if this number of requests is done.
    pub(super) fn is_made(&self, requests: u64) -> bool {
        self.made >= requests
    }

    /// Returns true if the thread is idle and has something to do. A single write waits for others
    /// that are adjacent.
    pub(super) fn is_ready(&self) -> bool {
        let is_open = self.waiting.len() == 1 && self.waiting.front().is_some_and(Request::is_open);
        self.busy.is_none()
            && (self.ends || (!self.waiting.is_empty() && (self.made < self.awaited || !is_open)))
    }

    /// Takes the next request.
    pub(super) fn take(&mut self) -> Option<Request> {
        let request = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(request.memory());
        self.busy = Some((request.offset, request.end()));
        Some(request)
    }

    /// Ends the request that was taken. After a failure, the requests that wait are dropped.
    pub(super) fn finish(&mut self, request: Request, made: Result<()>) {
        self.busy = None;
        self.made = self.made.saturating_add(1);
        if let Err(error) = made {
            self.fail(&error);
        }
        if let Change::Write(bytes) = request.change {
            self.spare = bytes;
        }
    }

    /// Fails everything that waits and that follows.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failure.get_or_insert_with(|| Failure::of(error));
        self.busy = None;
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.made = self.put;
    }

    /// Returns true if a range has changes that are not made yet.
    pub(super) fn concerns(&self, offset: u64, len_bytes: u64) -> bool {
        let end = offset.saturating_add(len_bytes);
        let waiting = self.waiting.iter().map(|it| (it.offset, it.end()));
        let mut ranges = self.busy.into_iter().chain(waiting);
        ranges.any(|(start, stop)| start < end && offset < stop)
    }

    /// Returns the first failure, if there was one.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |it| Err(it.error()))
    }
}

impl Request {
    /// Makes the change.
    pub(super) fn make(&self, device: &dyn BlockWrite) -> Result<()> {
        match &self.change {
            Change::Write(bytes) => device.write_at(self.offset, bytes),
            Change::WriteZeroes(len_bytes) => device.write_zeroes(self.offset, *len_bytes),
        }
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(match &self.change {
            Change::Write(bytes) => len_of(bytes),
            Change::WriteZeroes(len_bytes) => *len_bytes,
        })
    }

    fn memory(&self) -> usize {
        match &self.change {
            Change::Write(bytes) => bytes.len(),
            Change::WriteZeroes(_) => 0,
        }
    }

    /// Returns true if adjacent writes can be added.
    fn is_open(&self) -> bool {
        matches!(&self.change, Change::Write(bytes) if bytes.len() < REQUEST_BYTES)
    }
}

impl Failure {
    fn of(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            reason: error.reason().to_owned(),
            path: error.path().map(Into::into),
            offset: error.offset(),
            hint: error.next_step().map(Into::into),
        }
    }

    fn error(&self) -> Error {
        let mut error = Error::new(self.kind, self.reason.clone());
        if let Some(path) = &self.path {
            error = error.in_file(path);
        }
        if let Some(offset) = self.offset {
            error = error.at(offset);
        }
        match &self.hint {
            Some(hint) => error.with_hint(hint.clone()),
            None => error,
        }
    }
}
