//! Everything below a file, with errors of the facade.

use diskfs_vfs::{self as vfs, InodeNumber, WalkEntry};

use super::Filesystem;
use crate::Result;

/// The iterator of [`Filesystem::walk`]: a file and everything below it, in the order of the directories. Errors name the
/// image and the whole path, and the walk goes on behind them; paths of entries are relative to the start.
#[derive(Debug)]
pub struct Walk<'a> {
    inner: vfs::Walk<'a>,
    filesystem: &'a Filesystem,
    start: Vec<u8>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(filesystem: &'a Filesystem, inode: InodeNumber, path: &[u8]) -> Self {
        Self {
            inner: vfs::walk(filesystem.as_fs(), inode),
            filesystem,
            start: path.to_vec(),
        }
    }

    /// Leaves out what is below the directory that came last.
    pub fn skip_dir(&mut self) {
        self.inner.skip_dir();
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.inner.next()?;
        Some(entry.map_err(|e| self.filesystem.in_image(e.below(&self.start))))
    }
}
