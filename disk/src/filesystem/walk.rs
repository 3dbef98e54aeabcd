//! A walk of a directory tree, with the errors of this crate.

use diskfs_vfs::{self as vfs, InodeNumber, WalkEntry};

use super::Filesystem;
use crate::Result;

/// The iterator of [`Filesystem::walk`]: a file and everything below it, in directory order. Errors
/// name the image and the whole path, and the walk continues after them. The paths of entries are
/// relative to the start.
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

    /// Skips the entries of the directory that was yielded last.
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
