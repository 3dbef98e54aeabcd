//! A filesystem, by paths.

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

/// An open filesystem of a disk. Cloning it is cheap, and all clones are the same filesystem.
///
/// Paths are bytes, begin at the filesystem's root with or without a leading slash, and no symlink
/// leads out of it. Errors name the image and the path.
#[derive(Debug, Clone)]
pub struct Filesystem {
    fs: Arc<dyn FsRead>,
    image_path: Arc<Path>,
    volume: Arc<str>,
}

impl Filesystem {
    /// What a driver serves, on an image and a volume that errors name.
    pub fn new(fs: Arc<dyn FsRead>, image_path: &Path, volume: &str) -> Self {
        Self {
            fs,
            image_path: image_path.into(),
            volume: volume.into(),
        }
    }

    /// The driver, for what works by inode number.
    pub fn as_fs(&self) -> &dyn FsRead {
        &*self.fs
    }

    /// The driver, to share: what a FUSE mount serves.
    pub fn driver(&self) -> Arc<dyn FsRead> {
        Arc::clone(&self.fs)
    }

    /// The name of the volume that it is on.
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// The path of the image that it is in.
    pub fn image_path(&self) -> &Path {
        &self.image_path
    }

    /// Returns whether it is the root of an operating system, by its contents.
    ///
    /// # Errors
    /// `Corrupt`, `Io` when damage keeps it from being told.
    pub fn holds_system(&self) -> Result<bool> {
        system_root::holds_system(&*self.fs).map_err(|e| self.in_image(e))
    }

    /// Returns whether it is the `/usr` of an operating system, by its contents.
    pub(crate) fn holds_usr(&self) -> bool {
        system_root::holds_usr(&*self.fs)
    }

    /// What it says of itself: kind, label, UUID, features.
    pub fn identity(&self) -> Identity {
        self.fs.identity()
    }

    /// How full it is.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn statistics(&self) -> Result<Statistics> {
        self.fs.statistics().map_err(|e| self.in_image(e))
    }

    /// The number of the file that `path` names.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, and whatever reading directories brings.
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

    /// Returns the paths that a pattern matches as in a shell, sorted.
    ///
    /// # Errors
    /// `Io`, `Corrupt` for a directory that can't be read.
    pub fn glob(&self, pattern: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        glob::expand(&*self.fs, pattern.as_ref()).map_err(|e| self.in_image(e))
    }

    /// Returns which of the filesystems that are shown as one a file is on: 0 is the root's.
    pub fn mount_of(&self, inode: InodeNumber) -> usize {
        self.fs.mount_of(inode)
    }

    /// What stat(2) tells: of a symlink, about what it leads to.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.node(path, Follow::All)?.metadata()
    }

    /// What lstat(2) tells: of a symlink, about itself.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn symlink_metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.node(path, Follow::AllButLast)?.metadata()
    }

    /// Whether there is something at `path`, symlinks followed.
    ///
    /// # Errors
    /// What keeps one from knowing: `Corrupt`, `Io`.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> Result<bool> {
        use crate::ErrorKind::{NotADirectory, NotFound};
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.kind(), NotFound | NotADirectory) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The contents of a regular file. For one that may be large, see [`open`](Self::open) and
    /// [`read_at_most`](Self::read_at_most): an image can claim any size.
    ///
    /// # Errors
    /// `IsADirectory`, `Invalid` for what is no regular file, and as [`resolve`](Self::resolve).
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let mut contents = Vec::new();
        std::io::Read::read_to_end(&mut self.open(path)?, &mut contents)?;
        Ok(contents)
    }

    /// The contents of a regular file of at most `limit_bytes`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and `Invalid` for a larger file.
    pub fn read_at_most(&self, path: impl AsRef<[u8]>, limit_bytes: u64) -> Result<Vec<u8>> {
        self.node(path, Follow::All)?.read_at_most(limit_bytes)
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// `Invalid` for what is none, and as [`resolve`](Self::resolve).
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.node(path, Follow::AllButLast)?.read_link()
    }

    /// The entries of a directory in its own order, without `.` and `..`.
    ///
    /// # Errors
    /// `NotADirectory`, and as [`resolve`](Self::resolve).
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<DirEntry>> {
        self.node(path, Follow::All)?.read_dir()
    }

    /// The names in a directory that are text, sorted, for whoever looks through what may be hostile: no more than `limit`
    /// of its entries are read.
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

    /// The extended attributes of a file: whole names and values, in the order of the names.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.node(path, Follow::AllButLast)?.xattrs()
    }

    /// Everything below `path`, itself first, in the order of the directories; symlinks are not followed.
    /// [`Node::walk_sorted`] goes in the order of names.
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

    /// An error of the driver, with the image that it happened in.
    pub fn in_image(&self, error: vfs::Error) -> Error {
        Error::from(error).in_file(&self.image_path)
    }
}

/// What [`Filesystem::names_at_most`] found.
#[derive(Debug, Default)]
pub struct Names {
    /// The names that are text, sorted.
    pub names: Vec<String>,
    /// How many entries were read, those without a name of text too.
    pub entries: usize,
}
