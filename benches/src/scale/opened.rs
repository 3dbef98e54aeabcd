//! An image that the library has open for writing.

use std::path::Path;

use anyhow::Result;
use diskfs::vfs::{FsWrite, InodeNumber, NewAttributes, NewKind};
use diskfs::{Disk, WritableFilesystem, WriteOptions};

/// The only filesystem of an image, open for writing.
#[derive(Debug)]
pub(super) struct Opened {
    disk: Disk,
    filesystem: WritableFilesystem,
}

impl Opened {
    /// Opens an image.
    pub(super) fn new(image: &Path) -> Result<Self> {
        let disk = Disk::options().read_only(false).open(image)?;
        let filesystem = disk.writable_filesystem(&WriteOptions::default())?;
        Ok(Self { disk, filesystem })
    }

    /// Returns the driver.
    pub(super) fn fs(&self) -> &dyn FsWrite {
        self.filesystem.as_fs()
    }

    /// Creates an empty file or directory.
    pub(super) fn create(
        &self,
        directory: InodeNumber,
        name: &str,
        kind: NewKind<'_>,
    ) -> Result<InodeNumber> {
        let attributes = NewAttributes::for_root(0o755);
        Ok(self
            .fs()
            .create(directory, name.as_bytes(), kind, &attributes)?)
    }

    /// Closes filesystem and image.
    pub(super) fn close(self) -> Result<()> {
        self.filesystem.close()?;
        drop(self.filesystem);
        Ok(self.disk.close()?)
    }
}
