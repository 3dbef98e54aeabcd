//! A filesystem that can be written.

mod file;
mod paths;

use std::path::Path;
use std::sync::Arc;

use diskfs_vfs::{self as vfs, FsRead, FsWrite, Remains};

use crate::{Error, Filesystem, Result};

pub use file::WritableFile;

/// An open filesystem of a disk that can be written. Cloning it is cheap, and all clones are the
/// same filesystem.
#[derive(Debug, Clone)]
pub struct WritableFilesystem {
    fs: Arc<dyn FsWrite>,
    reader: Filesystem,
}

impl WritableFilesystem {
    /// What a driver serves, on an image and a volume that errors name.
    pub fn new(fs: Arc<dyn FsWrite>, image_path: &Path, volume: &str) -> Self {
        let reader = Arc::clone(&fs) as Arc<dyn FsRead>;
        Self {
            fs,
            reader: Filesystem::new(reader, image_path, volume),
        }
    }

    /// The same with `wrap` around the driver: what watches, counts or refuses changes.
    #[must_use]
    pub fn wrapped(self, wrap: impl FnOnce(Arc<dyn FsWrite>) -> Arc<dyn FsWrite>) -> Self {
        Self::new(
            wrap(self.fs),
            self.reader.image_path(),
            self.reader.volume(),
        )
    }

    /// The same filesystem, to read: what was written is seen at once.
    pub fn reader(&self) -> &Filesystem {
        &self.reader
    }

    /// The name of the volume that it is on.
    pub fn volume(&self) -> &str {
        self.reader.volume()
    }

    /// The path of the image that it is in.
    pub fn image_path(&self) -> &Path {
        self.reader.image_path()
    }

    /// The driver, for what works by inode number.
    pub fn as_fs(&self) -> &dyn FsWrite {
        &*self.fs
    }

    /// The driver, to share: what a FUSE mount serves.
    pub fn driver(&self) -> Arc<dyn FsWrite> {
        Arc::clone(&self.fs)
    }

    /// Ends writing: everything is durable, and the filesystem cleanly unmounted, when it returns.
    /// Close the [`Disk`](crate::Disk) next.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn close(&self) -> Result<()> {
        self.fs.close().map_err(|e| self.in_image(e))
    }

    /// Ends writing after an error, and drops what is not durable yet. Returns what was durable before.
    ///
    /// # Errors
    /// `Unsupported` where changes can't be dropped; then writing goes on.
    pub fn abandon(&self) -> Result<Remains> {
        self.fs.abandon().map_err(|e| self.in_image(e))
    }

    /// An error of the driver, with the image that it happened in.
    pub fn in_image(&self, error: vfs::Error) -> Error {
        self.reader.in_image(error)
    }
}
