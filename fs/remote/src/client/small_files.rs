//! Small files, several of which are read whole by one request.
//!
//! A caller announces the files that it will read next ([`FsRead::will_need`]); without that, they
//! are guessed from the directory's listing. The first read of one of them requests that file and
//! those that follow it. The next request is sent before its answer is needed, so that the other
//! side works while this one does.
//!
//! Contents are dropped when the file is changed, as its metadata are, and are not stored if it was
//! changed since the request.
//!
//! [`FsRead::will_need`]: diskfs_vfs::FsRead::will_need

mod listed;
mod stored;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use diskfs_vfs::InodeNumber;

use super::attributes::RequestTime;
use super::connection::Ticket;
use crate::protocol::FileRead;
use listed::Listings;
pub(super) use listed::{Listed, SMALL_FILE_MAX, small_len};
use stored::{Stored, Use};

/// The limits of a request: so small that the other side works on the next one meanwhile.
const BATCH_FILES: usize = 32;
pub(super) const BATCH_BYTES: usize = 512 << 10;

/// The number of requests that are sent before their answers are needed.
const BATCHES_AHEAD: usize = 2;

/// The number of files that may be announced; further ones are read one by one.
const ANNOUNCED_MAX: usize = 256;

/// The small files of a filesystem that were announced, requested, or received.
#[derive(Debug, Default)]
pub(super) struct SmallFiles {
    state: Mutex<SmallFilesState>,
    /// Notified when a request was sent or answered.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SmallFilesState {
    /// The files that will be read next, with their lengths.
    announced: VecDeque<(InodeNumber, usize)>,
    last_batch: u64,
    /// The files that were requested, with their batches.
    requested: HashMap<InodeNumber, u64>,
    /// The batches that were sent, and whose answers nobody waits for.
    sent: HashMap<u64, Batch>,
    stored: Stored,
    listings: Listings,
}

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) ticket: Ticket,
    pub(super) asked: RequestTime,
    pub(super) files: Vec<FileRead>,
}

/// The next step of a thread that reads a file.
pub(super) enum Step {
    Use(Arc<[u8]>),
    /// Request these files as the batch with this number.
    Send(u64, Vec<InodeNumber>),
    /// Wait for the answer of this batch.
    Finish(Batch),
    /// Read the file alone.
    ReadAlone,
}

/// Says whether a file was requested with others before, which has failed if it is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Failed,
}

impl SmallFilesState {
    /// Takes announced files from this position on, as many as one request may have.
    fn take_batch(&mut self, from: usize) -> (u64, Vec<InodeNumber>) {
        let mut bytes = 0_usize;
        let next = self.announced.iter().skip(from).take(BATCH_FILES);
        let count = next
            .take_while(|(_, len)| {
                bytes = bytes.saturating_add(*len);
                bytes <= BATCH_BYTES
            })
            .count();
        let end = from.saturating_add(count);
        let files: Vec<_> = self
            .announced
            .drain(from..end)
            .map(|(inode, _)| inode)
            .collect();
        self.last_batch = self.last_batch.wrapping_add(1);
        let number = self.last_batch;
        self.requested
            .extend(files.iter().map(|&inode| (inode, number)));
        (number, files)
    }

    fn announce(&mut self, inode: InodeNumber, len: usize) {
        let is_known = self.stored.has(inode)
            || self.requested.contains_key(&inode)
            || self.announced.iter().any(|(other, _)| *other == inode);
        if is_known {
            return;
        }
        if self.announced.len() >= ANNOUNCED_MAX {
            self.announced.pop_front();
        }
        self.announced.push_back((inode, len));
    }

    /// Announces a file and those that will probably be read after it.
    fn announce_guess(&mut self, inode: InodeNumber) {
        let guess: Vec<Listed> = self.listings.guess_from(inode).collect();
        for file in guess {
            self.announce(file.inode, file.len);
        }
    }

    /// Returns the next step of a reader, or `None` if it must wait for another thread.
    fn step(&mut self, inode: InodeNumber, attempt: Attempt) -> Option<Step> {
        if let Some((contents, which)) = self.stored.get(inode) {
            if which == Use::First {
                self.listings.note_right();
            }
            return Some(Step::Use(contents));
        }
        if let Some(number) = self.requested.get(&inode) {
            return self.sent.remove(number).map(Step::Finish);
        }
        if attempt == Attempt::Failed {
            return Some(Step::ReadAlone);
        }
        if !self.announced.iter().any(|(other, _)| *other == inode) {
            self.announce_guess(inode);
        }
        let position = self.announced.iter().position(|(other, _)| *other == inode);
        Some(match position {
            Some(position) => {
                let (number, files) = self.take_batch(position);
                Step::Send(number, files)
            }
            None => Step::ReadAlone,
        })
    }
}

impl SmallFiles {
    fn state(&self) -> MutexGuard<'_, SmallFilesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a file will be read soon.
    pub(super) fn announce(&self, inode: InodeNumber, len: usize) {
        self.state().announce(inode, len);
    }

    /// Records the small files of a part of a listing.
    pub(super) fn note_listing(&self, files: &[Listed]) {
        let mut state = self.state();
        for &file in files {
            state.listings.add(file);
        }
        if let Some(first) = files.first()
            && state.listings.is_sure()
        {
            state.announce_guess(first.inode);
        }
    }

    /// Drops the contents of a file that was changed.
    pub(super) fn forget(&self, inode: InodeNumber) {
        self.state().stored.remove(inode);
    }

    pub(super) fn next_step(&self, inode: InodeNumber, attempt: Attempt) -> Step {
        let mut state = self.state();
        loop {
            if let Some(step) = state.step(inode, attempt) {
                return step;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the files to request before they are read, if there are any.
    pub(super) fn next_batch(&self) -> Option<(u64, Vec<InodeNumber>)> {
        let mut state = self.state();
        let is_next = !state.announced.is_empty() && state.sent.len() < BATCHES_AHEAD;
        is_next.then(|| state.take_batch(0))
    }

    pub(super) fn note_sent(&self, batch: Batch) {
        self.state().sent.insert(batch.number, batch);
        self.changed.notify_all();
    }

    /// Records that a batch is over, and wakes the threads that wait for its files.
    pub(super) fn end(&self, number: u64) {
        let mut state = self.state();
        state.requested.retain(|_, of| *of != number);
        drop(state);
        self.changed.notify_all();
    }

    /// Stores contents of files for which `is_unchanged` returns true. A change from then on drops
    /// them.
    pub(super) fn store(
        &self,
        contents: Vec<(InodeNumber, &[u8])>,
        is_unchanged: impl Fn(InodeNumber) -> bool,
    ) {
        let mut state = self.state();
        for (inode, contents) in contents {
            // Under the lock, which a change takes after it is recorded.
            if is_unchanged(inode) && state.stored.insert(inode, contents) > 0 {
                state.listings.note_wrong();
            }
        }
    }

    /// Forgets what was announced, and returns the batches whose answers nobody waits for.
    pub(super) fn take_sent(&self) -> Vec<Batch> {
        let mut state = self.state();
        state.announced.clear();
        state.sent.drain().map(|(_, batch)| batch).collect()
    }
}
