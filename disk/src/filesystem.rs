//! A filesystem, accessed by path.

mod node;
mod sorted_walk;
mod walk;

use std::path::Path;
use std::sync::Arc;

use diskfs_vfs::{
    self as vfs, DirEntry, Follow, FsRead, Identity, InodeNumber, Metadata, Statistics, glob,
};

use crate::{Error, Result, system_root};

pub use node::Node;
pub use sorted_walk::{SortedEntry, SortedWalk};
pub use walk::Walk;

/// An open filesystem of a disk. Cloning is cheap; all clones share one filesystem.
///
/// Paths are bytes and start at the root of the filesystem, with or without a leading slash. No
/// symlink leads out of the filesystem. Errors name the image and the path.
#[derive(Debug, Clone)]
pub struct Filesystem {
    fs: Arc<dyn FsRead>,
    image_path: Arc<Path>,
    volume: Arc<str>,
}

impl Filesystem {
    /// Returns the filesystem of a driver, on a volume of an image. Errors name the image.
    pub fn new(fs: Arc<dyn FsRead>, image_path: &Path, volume: &str) -> Self {
        Self {
            fs,
            image_path: image_path.into(),
            volume: volume.into(),
        }
    }

    /// Returns the driver, for access by inode number.
    pub fn as_fs(&self) -> &dyn FsRead {
        &*self.fs
    }

    /// Returns the driver as a shared pointer, for example for a FUSE mount.
    pub fn driver(&self) -> Arc<dyn FsRead> {
        Arc::clone(&self.fs)
    }

    /// Returns the name of the volume that the filesystem is on.
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// Returns the path of the image that the filesystem is in.
    pub fn image_path(&self) -> &Path {
        &self.image_path
    }

    /// Returns true if the filesystem is the root of an operating system, judged by its files.
    ///
    /// # Errors
    /// `Corrupt`, `Io` if damage prevents the answer.
    pub fn holds_system(&self) -> Result<bool> {
        system_root::holds_system(&*self.fs).map_err(|e| self.in_image(e))
    }

    /// Returns true if the filesystem is the `/usr` of an operating system, judged by its files.
    pub(crate) fn holds_usr(&self) -> bool {
        system_root::holds_usr(&*self.fs)
    }

    /// Returns the kind, label, UUID and features that the superblock records.
    pub fn identity(&self) -> Identity {
        self.fs.identity()
    }

    /// Returns the total, used and free space and inodes.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn statistics(&self) -> Result<Statistics> {
        self.fs.statistics().map_err(|e| self.in_image(e))
    }

    /// Returns the inode number of the file at `path`.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, and the errors of reading directories.
    pub fn resolve(&self, path: impl AsRef<[u8]>, follow: Follow) -> Result<InodeNumber> {
        vfs::resolve(&*self.fs, path, follow).map_err(|e| self.in_image(e))
    }

    /// Finds a file of any type.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn node(&self, path: impl AsRef<[u8]>, follow: Follow) -> Result<Node> {
        let path = path.as_ref();
        Ok(Node::new(self.clone(), self.resolve(path, follow)?, path))
    }

    /// Returns the paths that match a shell pattern, sorted.
    ///
    /// # Errors
    /// `Io`, `Corrupt` for a directory that can't be read.
    pub fn glob(&self, pattern: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        glob::expand(&*self.fs, pattern.as_ref()).map_err(|e| self.in_image(e))
    }

    /// Returns the index of the mount that a file is on, in a tree of several filesystems: 0 is the
    /// root's.
    pub fn mount_of(&self, inode: InodeNumber) -> usize {
        self.fs.mount_of(inode)
    }

    /// Returns the metadata as stat(2) does: of the target, if the path is a symlink.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.node(path, Follow::All)?.metadata()
    }

    /// Returns the metadata as lstat(2) does: of the symlink itself.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn symlink_metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.node(path, Follow::AllButLast)?.metadata()
    }

    /// Returns true if `path` exists. Symlinks are followed.
    ///
    /// # Errors
    /// `Corrupt`, `Io` if the answer is unknown.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> Result<bool> {
        use crate::ErrorKind::{NotADirectory, NotFound};
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.kind(), NotFound | NotADirectory) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Returns the contents of a regular file. For files that may be large use [`open`](Self::open)
    /// or [`read_at_most`](Self::read_at_most): an image can claim any size.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for another type of file; as [`resolve`](Self::resolve).
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let mut contents = Vec::new();
        std::io::Read::read_to_end(&mut self.open(path)?, &mut contents)?;
        Ok(contents)
    }

    /// Returns the contents of a regular file of at most `limit_bytes`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and `Invalid` for a larger file.
    pub fn read_at_most(&self, path: impl AsRef<[u8]>, limit_bytes: u64) -> Result<Vec<u8>> {
        self.node(path, Follow::All)?.read_at_most(limit_bytes)
    }

    /// Returns the target of a symlink.
    ///
    /// # Errors
    /// `Invalid` for another type of file; as [`resolve`](Self::resolve).
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.node(path, Follow::AllButLast)?.read_link()
    }

    /// Returns the entries of a directory in its own order, without `.` and `..`.
    ///
    /// # Errors
    /// `NotADirectory`; as [`resolve`](Self::resolve).
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<DirEntry>> {
        self.node(path, Follow::All)?.read_dir()
    }

    /// Returns the names in a directory that are valid UTF-8, sorted. Reads at most `limit`
    /// entries, for callers that scan directories which may be hostile.
    ///
    /// # Errors
    /// As [`read_dir`](Self::read_dir).
    pub fn names_at_most(&self, path: &str, limit: usize) -> Result<Names> {
        let dir = self.node(path, Follow::All)?;
        let entries = self.fs.read_dir(dir.inode(), 0);
        let mut listed = Names::default();
        for entry in entries.map_err(|e| dir.in_image(e))?.take(limit) {
            listed.entries += 1;
            let name = String::from_utf8(entry.map_err(|e| dir.in_image(e))?.name);
            let is_name = |name: &String| name != "." && name != "..";
            listed.names.extend(name.ok().filter(is_name));
        }
        listed.names.sort();
        Ok(listed)
    }

    /// Returns the extended attributes of a file: full names and values, sorted by name.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.node(path, Follow::AllButLast)?.xattrs()
    }

    /// Walks the tree at `path`, starting with `path` itself, in directory order. Symlinks are not
    /// followed. [`Node::walk_sorted`] walks in the order of names.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn walk(&self, path: impl AsRef<[u8]>) -> Result<Walk<'_>> {
        let path = path.as_ref();
        Ok(Walk::new(
            self,
            self.resolve(path, Follow::AllButLast)?,
            path,
        ))
    }

    /// Adds the image to an error of the driver.
    pub fn in_image(&self, error: vfs::Error) -> Error {
        Error::from(error).in_file(&self.image_path)
    }
}

/// The result of [`Filesystem::names_at_most`].
#[derive(Debug, Default)]
pub struct Names {
    /// The names that are valid UTF-8, sorted.
    pub names: Vec<String>,
    /// The number of entries that were read, including those whose names are not valid UTF-8.
    pub entries: usize,
}
