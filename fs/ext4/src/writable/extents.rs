//! The extents of a file that other threads may change meanwhile.

use std::vec::IntoIter;

use diskfs_vfs::{FileExtent, FsRead, InodeNumber, Result};

use super::WritableExt4;

/// The number of extents that are read at first: a seek for data or a hole needs few.
const FIRST_LEN: usize = 4;

/// The largest number of extents that are read at once.
const BATCH_LEN: usize = 1024;

/// The extents of a file in batches, each as the file is at one moment.
pub(super) struct Extents<'a> {
    fs: &'a WritableExt4,
    inode: InodeNumber,
    batch: IntoIter<Result<FileExtent>>,
    /// The number of extents of the batch.
    len: usize,
    /// The offset at which the next batch begins.
    next: Option<u64>,
}

impl<'a> Extents<'a> {
    /// Reads the first extents from an offset on.
    pub(super) fn begin(fs: &'a WritableExt4, inode: InodeNumber, offset: u64) -> Result<Self> {
        Self::read(fs, inode, offset, FIRST_LEN)
    }

    fn read(fs: &'a WritableExt4, inode: InodeNumber, offset: u64, len: usize) -> Result<Self> {
        if let Ok(number) = u32::try_from(inode.0) {
            fs.core.write_back(number)?;
        }
        let batch: Vec<_> = fs.reading(inode, |_| {
            let extents = fs.core.reader.extents_of(inode, offset)?;
            Ok(extents.take(len).collect())
        })?;
        let last = batch.last().filter(|_| batch.len() == len);
        let next = last.and_then(|last| last.as_ref().ok());
        let next = next.map(|last| last.offset.saturating_add(last.len_bytes));
        Ok(Self {
            fs,
            inode,
            batch: batch.into_iter(),
            len,
            next,
        })
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<FileExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(extent) = self.batch.next() {
                return Some(extent);
            }
            let len = self.len.saturating_mul(4).min(BATCH_LEN);
            match Self::read(self.fs, self.inode, self.next.take()?, len) {
                Ok(next) => *self = next,
                Err(e) => return Some(Err(e)),
            }
        }
    }
}
