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
use super::connection::{Answer, MISMATCH, Ticket};
use super::remote::Remote;
use crate::protocol::{Checked, FileRead, Operation, Reply, Violation, encode_file_reads};
pub(super) use listed::Listed;
use listed::{Listings, small_len};
use stored::{Stored, Use};

/// The size of the largest file that is read with others.
pub(super) const SMALL_FILE_MAX: u32 = 128 << 10;

/// The limits of a request: so small that the other side works on the next one meanwhile.
const BATCH_FILES: usize = 32;
const BATCH_BYTES: usize = 512 << 10;

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
struct Batch {
    number: u64,
    ticket: Ticket,
    asked: RequestTime,
    files: Vec<FileRead>,
}

/// What a reader of a file must do next.
enum Step {
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
enum Attempt {
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

    fn next_step(&self, inode: InodeNumber, attempt: Attempt) -> Step {
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
    fn next_batch(&self) -> Option<(u64, Vec<InodeNumber>)> {
        let mut state = self.state();
        let is_next = !state.announced.is_empty() && state.sent.len() < BATCHES_AHEAD;
        is_next.then(|| state.take_batch(0))
    }

    fn note_sent(&self, batch: Batch) {
        self.state().sent.insert(batch.number, batch);
        self.changed.notify_all();
    }

    /// Records that a batch is over, and wakes the threads that wait for its files.
    fn end(&self, number: u64) {
        let mut state = self.state();
        state.requested.retain(|_, of| *of != number);
        drop(state);
        self.changed.notify_all();
    }
}

impl Remote {
    /// Reads from a small file that was announced. Returns `None` for all others.
    pub(super) fn read_small(
        &self,
        inode: InodeNumber,
        offset: u64,
        buf: &mut [u8],
    ) -> Option<usize> {
        let mut attempt = Attempt::First;
        loop {
            match self.small_files.next_step(inode, attempt) {
                Step::ReadAlone => return None,
                Step::Use(contents) => {
                    self.send_next();
                    return Some(copy(&contents, offset, buf));
                }
                Step::Send(number, files) => {
                    attempt = Attempt::Failed;
                    self.send_batch(number, &files);
                }
                Step::Finish(batch) => {
                    self.send_next();
                    self.finish_batch(&batch);
                }
            }
        }
    }

    /// Sends requests for announced files before they are read.
    pub(super) fn send_next(&self) {
        while let Some((number, files)) = self.small_files.next_batch() {
            self.send_batch(number, &files);
        }
    }

    /// Requests files. If that fails, they are read one by one, and the error is met there.
    fn send_batch(&self, number: u64, files: &[InodeNumber]) {
        let asked = self.attributes.request_time();
        let files = self.files_to_read(files);
        let encoded = encode_file_reads(&files);
        let request = self.request(Operation::ReadFiles { files: &encoded });
        let limit = files.iter().map(|file| len(file.len)).sum();
        let can_send = !files.is_empty() && self.check_open().is_ok();
        let sent = can_send.then(|| self.connection.send_ahead(&request, limit));
        match sent {
            Some(Ok(ticket)) => self.small_files.note_sent(Batch {
                number,
                ticket,
                asked,
                files,
            }),
            _ => self.small_files.end(number),
        }
    }

    /// Returns the regular files of known size whose contents fit into one answer.
    fn files_to_read(&self, files: &[InodeNumber]) -> Vec<FileRead> {
        let mut room = BATCH_BYTES;
        let known = files.iter().filter_map(|&inode| {
            let len = small_len(&self.attributes.get(inode)?)?;
            let inode = inode.0;
            Some(FileRead { inode, len })
        });
        known
            .take_while(|file| {
                let rest = room.checked_sub(len(file.len));
                room = rest.unwrap_or_default();
                rest.is_some()
            })
            .collect()
    }

    /// Waits for a batch, and stores its contents. A file that can't be read is read alone later,
    /// which returns the error.
    fn finish_batch(&self, batch: &Batch) {
        let total = batch.files.iter().map(|file| len(file.len)).sum();
        let mut into = vec![0; total];
        let take = |answer: Answer<'_>| self.store(batch, &answer);
        let _ = self.connection.finish_later(batch.ticket, &mut into, take);
        self.small_files.end(batch.number);
    }

    /// Checks an answer, and stores the contents of the files that were not changed meanwhile.
    fn store(&self, batch: &Batch, answer: &Answer<'_>) -> Checked<()> {
        let contents = split(&batch.files, answer)?;
        let mut state = self.small_files.state();
        for (inode, contents) in contents {
            // Under the lock: a change from here on drops the contents.
            if self.attributes.is_unchanged(batch.asked, inode) {
                let unused = state.stored.insert(inode, contents);
                if unused > 0 {
                    state.listings.note_wrong();
                }
            }
        }
        Ok(())
    }

    /// Waits for all requests that were sent ahead.
    pub(super) fn finish_all_reads(&self) {
        let sent: Vec<Batch> = {
            let mut state = self.small_files.state();
            state.announced.clear();
            state.sent.drain().map(|(_, batch)| batch).collect()
        };
        for batch in sent {
            self.finish_batch(&batch);
        }
    }
}

/// Returns the contents of each file in an answer.
fn split<'a>(files: &[FileRead], answer: &Answer<'a>) -> Checked<Vec<(InodeNumber, &'a [u8])>> {
    let Reply::Files { lens } = &answer.reply else {
        return Err(MISMATCH);
    };
    if lens.len() != files.len() {
        return Err(MISMATCH);
    }
    let mut rest = answer.bulk;
    let mut contents = Vec::with_capacity(files.len());
    for (file, read) in files.iter().zip(lens) {
        let Some(read) = *read else { continue };
        let taken = rest
            .split_at_checked(len(read))
            .filter(|_| read <= file.len);
        let (of_file, later) = taken.ok_or(Violation("invalid lengths of files"))?;
        contents.push((InodeNumber(file.inode), of_file));
        rest = later;
    }
    if !rest.is_empty() {
        return Err(MISMATCH);
    }
    Ok(contents)
}

/// Copies from offset `offset` of a file's contents.
fn copy(contents: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let from = usize::try_from(offset).ok();
    let rest = from
        .and_then(|from| contents.get(from..))
        .unwrap_or_default();
    let len = rest.len().min(buf.len());
    if let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len)) {
        to.copy_from_slice(from);
    }
    len
}

fn len(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
