//! A file of any type that has been looked up.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_vfs::copy_out::{CopyOptions, Summary, copy_out};
use diskfs_vfs::path::join;
use diskfs_vfs::{self as vfs, DirEntry, FileExtent, FsRead, InodeNumber, Metadata, read_file};

use super::Filesystem;
use super::sorted_walk::{SortedWalk, sorted_entries};
use super::walk::Walk;
use crate::{Error, Result};

/// A file of any type that has been looked up: its inode number, and the path that errors name. Its
/// methods look up no path.
#[derive(Debug, Clone)]
pub struct Node {
    filesystem: Filesystem,
    inode: InodeNumber,
    path: Vec<u8>,
}

impl Node {
    /// Returns the file with an inode number; errors name `path`. Use [`Filesystem::node`] if only
    /// the path is known.
    pub fn new(filesystem: Filesystem, inode: InodeNumber, path: impl Into<Vec<u8>>) -> Self {
        Self {
            filesystem,
            inode,
            path: path.into(),
        }
    }

    /// Returns a file below this one from the path and inode number that a walk of this file
    /// yields.
    #[must_use]
    pub fn below(&self, path: &[u8], inode: InodeNumber) -> Self {
        Self::new(self.filesystem.clone(), inode, join(&self.path, path))
    }

    /// Returns the filesystem of the file.
    pub fn filesystem(&self) -> &Filesystem {
        &self.filesystem
    }

    /// Returns the inode number.
    pub fn inode(&self) -> InodeNumber {
        self.inode
    }

    /// Returns the path that errors name.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the metadata, as lstat(2) does.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn metadata(&self) -> Result<Metadata> {
        self.query(|fs, inode| fs.metadata(inode))
    }

    /// Returns the target of a symlink.
    ///
    /// # Errors
    /// `Invalid` for another type of file.
    pub fn read_link(&self) -> Result<Vec<u8>> {
        self.query(|fs, inode| fs.read_link(inode))
    }

    /// Returns the contents of a regular file of at most `limit_bytes`.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for another type of file, and for a larger one.
    pub fn read_at_most(&self, limit_bytes: u64) -> Result<Vec<u8>> {
        self.query(|fs, inode| read_file(fs, inode, limit_bytes))
    }

    /// Returns the entries of a directory in its own order, without `.` and `..`.
    ///
    /// # Errors
    /// `NotADirectory`.
    pub fn read_dir(&self) -> Result<Vec<DirEntry>> {
        self.query(|fs, inode| {
            let entries = fs.read_dir(inode, 0)?;
            let is_name = |entry: &DirEntry| entry.name != b"." && entry.name != b"..";
            entries
                .filter(|entry| entry.as_ref().map_or(true, is_name))
                .collect()
        })
    }

    /// Returns the entries of a directory in the order of their names, without `.` and `..`.
    ///
    /// # Errors
    /// `NotADirectory`; `Corrupt` for a name that is empty or contains a slash.
    pub fn read_dir_sorted(&self) -> Result<Vec<DirEntry>> {
        self.query(sorted_entries)
    }

    /// Returns the value of the extended attribute with this full name, or `None` if there is no
    /// such attribute.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn xattr(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.query(|fs, inode| fs.xattr(inode, name))
    }

    /// Returns the full names of the extended attributes.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        self.query(|fs, inode| fs.list_xattrs(inode))
    }

    /// Returns the extended attributes: full names and values, sorted by name.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn xattrs(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.query(|fs, inode| {
            let mut names = fs.list_xattrs(inode)?;
            names.sort();
            let mut pairs = Vec::with_capacity(names.len());
            for name in names {
                if let Some(value) = fs.xattr(inode, &name)? {
                    pairs.push((name, value));
                }
            }
            Ok(pairs)
        })
    }

    /// Returns the extents of a regular file from byte `offset` on.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for a file without contents.
    pub fn extents(&self, offset: u64) -> Result<impl Iterator<Item = Result<FileExtent>>> {
        let fs = self.filesystem.as_fs();
        let extents = fs.extents_of(self.inode, offset);
        let extents = extents.map_err(|e| self.in_image(e))?;
        Ok(extents.map(|extent| extent.map_err(|e| self.in_image(e))))
    }

    /// Copies the file, or a directory tree, to a path of the host. Symlinks are copied as
    /// symlinks, and nothing is written outside of `destination`. The summary holds the errors of
    /// single files, with paths relative to this file.
    ///
    /// `progress` is called for each file, and after each MiB of a large file, with the path within
    /// the copy. It can return [`CancellationToken::flow`](crate::CancellationToken::flow).
    ///
    /// # Errors
    /// Errors that end the copy: `NotFound`, `Denied`, `NoSpace` on the host; `Cancelled` if
    /// `progress` returns [`ControlFlow::Break`].
    pub fn copy_to(
        &self,
        destination: &Path,
        options: &CopyOptions,
        progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    ) -> Result<Summary> {
        let fs = self.filesystem.as_fs();
        copy_out(fs, self.inode, destination, options, progress)
            .map_err(|e| self.filesystem.in_image(e.below(&self.path)))
    }

    /// Walks the file and everything below it in directory order. Symlinks are not followed.
    pub fn walk(&self) -> Walk<'_> {
        Walk::new(&self.filesystem, self.inode, &self.path)
    }

    /// Walks the file and everything below it in the order of names. Symlinks are not followed.
    pub fn walk_sorted(&self) -> SortedWalk<'_> {
        SortedWalk::new(&self.filesystem, self.inode, &self.path)
    }

    /// Adds the image and the path to an error of the driver.
    pub fn in_image(&self, error: vfs::Error) -> Error {
        self.filesystem.in_image(error.in_path(&self.path))
    }

    fn query<T>(
        &self,
        query: impl FnOnce(&dyn FsRead, InodeNumber) -> vfs::Result<T>,
    ) -> Result<T> {
        query(self.filesystem.as_fs(), self.inode).map_err(|e| self.in_image(e))
    }
}
