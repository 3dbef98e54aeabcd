//! A filesystem that is open for writing.

mod file;
mod paths;

use std::path::Path;
use std::sync::Arc;

use diskfs_vfs::{self as vfs, FsRead, FsWrite, Remains};

use crate::{Error, Filesystem, Result};

pub use file::WritableFile;

/// An open filesystem of a disk that can be written. Cloning is cheap; all clones share one
/// filesystem.
#[derive(Debug, Clone)]
pub struct WritableFilesystem {
    fs: Arc<dyn FsWrite>,
    reader: Filesystem,
}

impl WritableFilesystem {
    /// Returns the filesystem of a driver, on a volume of an image. Errors name the image.
    pub fn new(fs: Arc<dyn FsWrite>, image_path: &Path, volume: &str) -> Self {
        let reader = Arc::clone(&fs) as Arc<dyn FsRead>;
        Self {
            fs,
            reader: Filesystem::new(reader, image_path, volume),
        }
    }

    /// Replaces the driver by `wrap(driver)`, for example to observe, count or refuse changes.
    #[must_use]
    pub fn wrapped(self, wrap: impl FnOnce(Arc<dyn FsWrite>) -> Arc<dyn FsWrite>) -> Self {
        Self::new(
            wrap(self.fs),
            self.reader.image_path(),
            self.reader.volume(),
        )
    }

    /// Returns the same filesystem for reading. Changes are visible in it at once.
    pub fn reader(&self) -> &Filesystem {
        &self.reader
    }

    /// Returns the name of the volume that the filesystem is on.
    pub fn volume(&self) -> &str {
        self.reader.volume()
    }

    /// Returns the path of the image that the filesystem is in.
    pub fn image_path(&self) -> &Path {
        self.reader.image_path()
    }

    /// Returns the driver, for access by inode number.
    pub fn as_fs(&self) -> &dyn FsWrite {
        &*self.fs
    }

    /// Returns the driver as a shared pointer, for example for a FUSE mount.
    pub fn driver(&self) -> Arc<dyn FsWrite> {
        Arc::clone(&self.fs)
    }

    /// Ends writing: when it returns, all changes are durable and the filesystem is cleanly
    /// unmounted. Close the [`Disk`](crate::Disk) next.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn close(&self) -> Result<()> {
        self.fs.close().map_err(|e| self.in_image(e))
    }

    /// Ends writing after an error, and discards the changes that are not durable yet. Returns
    /// which changes remain.
    ///
    /// # Errors
    /// `Unsupported` if changes can't be discarded; then the filesystem stays open for writing.
    pub fn abandon(&self) -> Result<Remains> {
        self.fs.abandon().map_err(|e| self.in_image(e))
    }

    /// Adds the image to an error of the driver.
    pub fn in_image(&self, error: vfs::Error) -> Error {
        self.reader.in_image(error)
    }
}
