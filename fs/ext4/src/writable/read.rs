//! Reading while other threads write. Each call holds the file's lock, shared, so that it sees
//! every change either completely or not at all.

use std::time::Duration;

use diskfs_vfs::{
    DirEntries, DirEntry, Error, ErrorKind, FileAttributes, FileExtents, FsRead, Identity,
    InodeNumber, Metadata, Result, Statistics,
};

use crate::allocator::Totals;
use crate::statistics::reserved_blocks;
use crate::superblock::Superblock;

use super::WritableExt4;
use super::extents::Extents;

impl WritableExt4 {
    /// Reads one file while holding its lock. Corrupt metadata stops writing: nobody knows what
    /// else is corrupt.
    pub(super) fn reading<R>(
        &self,
        inode: InodeNumber,
        read: impl FnOnce(u32) -> Result<R>,
    ) -> Result<R> {
        let Ok(number) = u32::try_from(inode.0) else {
            return Err(Error::new(ErrorKind::NotFound, "no such inode").in_inode(inode));
        };
        let shared = self.core.locks.shared(number);
        let result = read(number);
        drop(shared);
        result.inspect_err(|e| self.core.found(e))
    }
}

impl FsRead for WritableExt4 {
    fn identity(&self) -> Identity {
        self.core.reader.identity()
    }

    fn root(&self) -> InodeNumber {
        self.core.reader.root()
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.reading(dir, |_| self.core.reader.lookup(dir, name))
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.reading(inode, |number| {
            let mut metadata = self.core.reader.metadata(inode)?;
            self.core.amend_metadata(number, &mut metadata);
            Ok(metadata)
        })
    }

    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        self.reading(inode, |_| self.core.reader.file_attributes(inode))
    }

    fn time_granularity(&self) -> Duration {
        self.core.reader.time_granularity()
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reading(inode, |number| {
            let done = self.core.reader.read_at(inode, offset, buf)?;
            Ok(self.core.delayed.read(number, offset, buf, done))
        })
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        Ok(Box::new(Listing::begin(self, dir, cookie)?))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.reading(inode, |_| self.core.reader.read_link(inode))
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.reading(inode, |_| self.core.reader.xattr(inode, name))
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.reading(inode, |_| self.core.reader.list_xattrs(inode))
    }

    fn statistics(&self) -> Result<Statistics> {
        let superblock = &self.core.volume().superblock;
        let statistics = self.core.reader.statistics()?;
        let totals = self.core.allocator.totals();
        Ok(with_totals(superblock, statistics, totals))
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        Ok(Box::new(Extents::begin(self, inode, offset)?))
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        self.core.reader.will_need_metadata(inodes);
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let announce = |_| {
            self.core.reader.will_need(inode, offset, len_bytes);
            Ok(())
        };
        // A failed announcement does no harm.
        let _ = self.reading(inode, announce);
    }
}

/// The entries of a directory in the order of their hashes, in batches, each as the directory is at
/// one moment. Names that are added or removed meanwhile may be included or not; all others are
/// included once.
struct Listing<'a> {
    fs: &'a WritableExt4,
    dir: InodeNumber,
    entries: std::vec::IntoIter<DirEntry>,
    /// The cookie with which the next batch begins.
    next: Option<u64>,
}

impl<'a> Listing<'a> {
    fn begin(fs: &'a WritableExt4, dir: InodeNumber, cookie: u64) -> Result<Self> {
        let batch = fs.reading(dir, |_| fs.core.reader.batch(dir, cookie))?;
        Ok(Self {
            fs,
            dir,
            entries: batch.entries.into_iter(),
            next: batch.next,
        })
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            match Self::begin(self.fs, self.dir, self.next.take()?) {
                Ok(next) => *self = next,
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

/// Returns the statistics with other counts of free blocks and inodes.
fn with_totals(superblock: &Superblock, statistics: Statistics, totals: Totals) -> Statistics {
    Statistics {
        blocks_free: totals.free_blocks,
        blocks_available: totals
            .free_blocks
            .saturating_sub(reserved_blocks(superblock)),
        inodes_free: totals.free_inodes,
        ..statistics
    }
}
