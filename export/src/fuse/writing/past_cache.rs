//! Writes past the kernel's cache: with `O_DIRECT`, and on handles that are only for writing. See
//! "Writes past the cache" in `DESIGN.md`.

use std::sync::Arc;

use diskfs_vfs::{Error, ErrorKind, FsWrite, InodeNumber, Result};
use fuser::{FopenFlags, INodeNo, Notifier, OpenAccMode, OpenFlags, ReplyWrite, WriteFlags};

use super::super::reading::report;
use super::privileges::Requester;
use super::references::StalePages;
use super::replies::is_direct;
use super::{WritingAdapter, write_all};

/// The number of times that a write is repeated while mappings of its pages are written. Two were
/// enough beside a program that did nothing else.
const REPEATS_MAX: u32 = 100;

/// A request to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) requester: Requester,
    pub(super) node: INodeNo,
    pub(super) offset: u64,
    pub(super) data: &'a [u8],
    pub(super) flags: WriteFlags,
    /// The flags of the handle.
    pub(super) opened: OpenFlags,
    pub(super) is_past_cache: bool,
}

impl WritingAdapter {
    /// Returns how the kernel caches what is written on a handle. It keeps the pages that it has.
    pub(super) fn caching(&self, inode: InodeNumber, flags: OpenFlags) -> FopenFlags {
        let past = match flags.acc_mode() {
            OpenAccMode::O_RDONLY => false,
            // Past the cache anyway, and several requests of one write at a time.
            OpenAccMode::O_WRONLY if is_direct(flags) => false,
            OpenAccMode::O_WRONLY => self.writes_past_cache && !self.references.is_mappable(inode),
            OpenAccMode::O_RDWR => {
                self.references.note_mappable(inode);
                false
            }
        };
        if past {
            FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_DIRECT_IO
        } else {
            FopenFlags::FOPEN_KEEP_CACHE
        }
    }

    /// Writes what the kernel doesn't cache.
    pub(super) fn write_past_cache(&self, write: Write<'_>, reply: ReplyWrite) {
        let inode = self.inode(write.node);
        let done = self.write_some(write);
        // With `O_DIRECT`, nobody expects a mapping to show the same contents.
        let is_shared = !is_direct(write.opened) && self.references.is_mappable(inode);
        match (done, self.notifier.get().cloned()) {
            (Ok(written), Some(notifier)) if is_shared => {
                let write = SharedWrite {
                    notifier,
                    fs: Arc::clone(&self.fs),
                    node: write.node,
                    inode,
                    offset: write.offset,
                    data: write.data.get(..written).unwrap_or_default().to_vec(),
                };
                self.notifier_thread
                    .send(move || answer_write(write.repeat_until_it_stays(), reply));
            }
            (done, _) => {
                // Also after an error: a part may have been written.
                let len = write.data.len() as u64;
                let stale = self.references.stale_pages(inode, write.offset, len);
                self.without_stale_pages(write.node, stale, move || answer_write(done, reply));
            }
        }
    }
}

/// A write of which mapped pages may have older contents.
struct SharedWrite {
    notifier: Notifier,
    fs: Arc<dyn FsWrite>,
    node: INodeNo,
    inode: InodeNumber,
    offset: u64,
    data: Vec<u8>,
}

impl SharedWrite {
    /// Makes the kernel write and drop its pages, and repeats the write if that has changed it. The
    /// pages that the kernel has afterwards were read after that.
    fn repeat_until_it_stays(&self) -> Result<usize> {
        let range = StalePages::Range {
            offset: self.offset,
            len: self.data.len() as u64,
        };
        let (offset, len) = range.range().unwrap_or_default();
        for _ in 0..REPEATS_MAX {
            let _ = self.notifier.inval_inode(self.node, offset, len);
            if self.is_stored()? {
                return Ok(self.data.len());
            }
            write_all(&*self.fs, self.inode, self.offset, &self.data).1?;
        }
        Err(Error::from(ErrorKind::Busy).in_inode(self.inode))
    }

    fn is_stored(&self) -> Result<bool> {
        let mut stored = vec![0; self.data.len()];
        let mut done = 0;
        while done < stored.len() {
            match self
                .fs
                .read_at(self.inode, self.offset + done as u64, &mut stored[done..])?
            {
                0 => break,
                len => done += len,
            }
        }
        Ok(stored == self.data)
    }
}

/// Answers a request to write with the number of bytes.
pub(super) fn answer_write(done: Result<usize>, reply: ReplyWrite) {
    match done {
        // A request is smaller than 4 GiB.
        Ok(written) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
        Err(error) => reply.error(report("write", &error)),
    }
}
