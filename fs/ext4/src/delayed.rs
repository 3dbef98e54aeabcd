//! Written contents that have no blocks yet ("delayed allocation"). Small appended pieces get one
//! run of blocks, and a file that is soon deleted costs nothing.
//!
//! For each file, the bytes after its end according to the inode on the device are kept in memory.
//! So the device always has the file as it was before, and a crash leaves that. The blocks that the
//! bytes will need are reserved at once, so that the writer learns about a full filesystem.
//!
//! A file's range is read and changed while the file's lock is held. None of the locks in this
//! module is held while another is taken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diskfs_vfs::{Metadata, Timestamp};

use crate::allocator::Allocator;
use crate::bytes::{index, len_u64, put};
use crate::hashing::{HashMap, HashSet};

const SHARDS: usize = 16;

/// The maximum number of bytes kept for one file.
pub(crate) const FILE_BYTES_MAX: u64 = 4 << 20;
/// The maximum number of bytes kept for all files.
pub(crate) const TOTAL_BYTES_MAX: u64 = 16 << 20;

/// A range of a file that has no blocks yet.
#[derive(Debug)]
pub(crate) struct Delayed {
    /// The start of the range: the inode's size.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    /// The time of the last write, unless the inode has it.
    pub(crate) written: Option<Timestamp>,
    /// The number of clusters that are reserved for the range.
    pub(crate) reserved_clusters: u64,
    since: Instant,
}

impl Delayed {
    /// Returns an empty range.
    pub(crate) fn new(start: u64) -> Self {
        Self {
            start,
            bytes: Vec::new(),
            written: None,
            reserved_clusters: 0,
            since: Instant::now(),
        }
    }

    /// Returns the end of the range: the file's size.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(len_u64(self.bytes.len()))
    }

    /// Writes data that begins within the range or directly after it.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let at = index(offset.saturating_sub(self.start));
        let end = at.saturating_add(data.len());
        if at == self.bytes.len() {
            self.bytes.extend_from_slice(data);
            return;
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        put(&mut self.bytes, at, data);
    }

    /// Copies the bytes of the range from `offset` on into `buf`, after what was read from the
    /// device. Returns how many bytes of `buf` are filled now.
    fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = index(self.end().saturating_sub(offset)).min(buf.len());
        let first = index(self.start.saturating_sub(offset));
        let skipped = index(offset.saturating_sub(self.start));
        let have = self.bytes.get(skipped..).unwrap_or_default();
        let have = have.get(..len.saturating_sub(first)).unwrap_or(have);
        put(buf, first, have);
        len
    }
}

/// The delayed ranges of all files.
#[derive(Debug, Default)]
pub(crate) struct DelayedFiles {
    shards: [Mutex<HashMap<u32, Delayed>>; SHARDS],
    bytes: AtomicU64,
    emptied: Mutex<TruncatedFiles>,
}

/// The files with contents that were truncated to zero a short while ago. A program that rewrites a
/// file wants either the old or the new contents after a crash, so nothing is kept in memory for
/// such a file (the kernel's `auto_da_alloc`).
#[derive(Debug, Default)]
struct TruncatedFiles {
    lately: HashSet<u32>,
    before: HashSet<u32>,
}

impl TruncatedFiles {
    /// The maximum number of remembered files. Beyond that, the oldest ones are forgotten sooner.
    const LATELY_MAX: usize = 4096;

    fn add(&mut self, inode: u32) {
        if self.lately.len() >= Self::LATELY_MAX {
            self.age();
        }
        self.lately.insert(inode);
    }

    fn age(&mut self) {
        self.before = std::mem::take(&mut self.lately);
    }

    fn contains(&self, inode: u32) -> bool {
        self.lately.contains(&inode) || self.before.contains(&inode)
    }

    fn forget(&mut self, inode: u32) {
        self.lately.remove(&inode);
        self.before.remove(&inode);
    }
}

impl DelayedFiles {
    fn shard(&self, inode: u32) -> MutexGuard<'_, HashMap<u32, Delayed>> {
        let nth = index(inode).checked_rem(SHARDS).unwrap_or(0);
        let [first, ..] = &self.shards;
        let shard = self.shards.get(nth).unwrap_or(first);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emptied(&self) -> MutexGuard<'_, TruncatedFiles> {
        self.emptied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a file with contents was truncated to zero.
    pub(crate) fn note_emptied(&self, inode: u32) {
        self.emptied().add(inode);
    }

    /// Returns true if [`note_emptied`](Self::note_emptied) was called for the inode a short while
    /// ago: within one to two intervals between calls of [`age_emptied`](Self::age_emptied).
    pub(crate) fn was_emptied(&self, inode: u32) -> bool {
        self.emptied().contains(inode)
    }

    /// Forgets a file that was deleted.
    pub(crate) fn forget_emptied(&self, inode: u32) {
        self.emptied().forget(inode);
    }

    /// Marks the end of an interval.
    pub(crate) fn age_emptied(&self) {
        self.emptied().age();
    }

    /// Returns the number of bytes kept for all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Returns true if a range of the file is kept.
    pub(crate) fn contains(&self, inode: u32) -> bool {
        self.bytes() > 0 && self.shard(inode).contains_key(&inode)
    }

    /// Removes and returns the range of a file.
    pub(crate) fn take(&self, inode: u32) -> Option<Delayed> {
        if self.bytes() == 0 {
            return None;
        }
        let taken = self.shard(inode).remove(&inode)?;
        self.bytes
            .fetch_sub(len_u64(taken.bytes.len()), Ordering::SeqCst);
        Some(taken)
    }

    /// Adds a range for a file that has none.
    pub(crate) fn put(&self, inode: u32, delayed: Delayed) {
        self.bytes
            .fetch_add(len_u64(delayed.bytes.len()), Ordering::SeqCst);
        self.shard(inode).insert(inode, delayed);
    }

    /// Drops the range of a file, and releases the clusters that are reserved for it.
    pub(crate) fn forget(&self, allocator: &Allocator, inode: u32) {
        if let Some(taken) = self.take(inode) {
            allocator.unreserve(taken.reserved_clusters);
        }
    }

    /// Returns the time of the last write of the contents, if the inode doesn't have it yet. The
    /// caller stores it in the inode.
    pub(crate) fn take_time(&self, inode: u32) -> Option<Timestamp> {
        if self.bytes() == 0 {
            return None;
        }
        self.shard(inode).get_mut(&inode)?.written.take()
    }

    /// Continues a read that got `done` bytes from the device. Returns the total number of bytes.
    pub(crate) fn read(&self, inode: u32, offset: u64, buf: &mut [u8], done: usize) -> usize {
        if self.bytes() == 0 {
            return done;
        }
        let shard = self.shard(inode);
        let delayed = shard.get(&inode);
        delayed.map_or(done, |delayed| delayed.read(offset, buf))
    }

    /// Corrects an inode's metadata by the range that is kept in memory.
    pub(crate) fn amend(&self, inode: u32, cluster_bytes: u64, metadata: &mut Metadata) {
        if self.bytes() == 0 {
            return;
        }
        let shard = self.shard(inode);
        let Some(delayed) = shard.get(&inode) else {
            return;
        };
        metadata.size_bytes = delayed.end();
        let reserved = delayed.reserved_clusters.saturating_mul(cluster_bytes);
        metadata.allocated_bytes = metadata.allocated_bytes.saturating_add(reserved);
        if let Some(time) = delayed.written {
            metadata.modified = time;
            metadata.changed = metadata.changed.max(time);
        }
    }

    /// Returns the files whose ranges are older than `age`, in order.
    pub(crate) fn older_than(&self, age: Duration) -> Vec<u32> {
        let mut numbers = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let old = shard.iter().filter(|(_, kept)| kept.since.elapsed() >= age);
            numbers.extend(old.map(|(&number, _)| number));
        }
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_emptied_is_known_for_a_while() {
        let files = DelayedFiles::default();
        files.note_emptied(7);
        files.note_emptied(8);
        files.forget_emptied(8);
        files.age_emptied();
        assert!(files.was_emptied(7) && !files.was_emptied(8));
        files.age_emptied();
        assert!(!files.was_emptied(7));
        for inode in 0..10_000 {
            files.note_emptied(inode);
        }
        assert!(files.was_emptied(9999) && !files.was_emptied(0));
    }

    #[test]
    fn a_read_goes_on_behind_the_device() {
        let files = DelayedFiles::default();
        let mut delayed = Delayed::new(10);
        delayed.write(10, b"abcdef");
        delayed.write(12, b"XY");
        delayed.write(15, b"ZZ");
        files.put(7, delayed);
        let mut buf = [9; 10];
        assert_eq!(files.read(7, 8, &mut buf, 2), 9);
        assert_eq!(&buf, b"\x09\x09abXYeZZ\x09");
        let mut buf = [9; 3];
        assert_eq!(files.read(7, 13, &mut buf, 0), 3);
        assert_eq!(&buf, b"YeZ");
        assert_eq!(files.read(7, 17, &mut buf, 0), 0);
        assert_eq!(files.read(8, 0, &mut buf, 1), 1);
        assert_eq!(files.bytes(), 7);
        assert_eq!(files.take(7).unwrap().end(), 17);
        assert_eq!(files.bytes(), 0);
    }
}
