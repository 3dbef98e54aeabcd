//! One volume of a disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, BlockWrite, Slice};
use diskfs_volume::Partition;

use super::content::{Content, ContentClass};
use super::driver::{self, WriteOptions};
use super::guest_disk::GuestDisk;
use crate::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};

/// A part of a disk that may hold a filesystem: a partition, or the whole disk.
#[derive(Debug, Clone)]
pub struct Volume {
    name: String,
    image_path: PathBuf,
    disk: GuestDisk,
    start_bytes: u64,
    size_bytes: u64,
    partition: Option<Partition>,
    content: OnceLock<Option<Content>>,
}

impl Volume {
    pub(super) fn whole(image_path: &Path, disk: GuestDisk) -> Self {
        Self {
            name: "disk".to_owned(),
            ..Self::at(image_path, disk, 0)
        }
    }

    pub(super) fn at(image_path: &Path, disk: GuestDisk, start_bytes: u64) -> Self {
        Self {
            name: format!("@{start_bytes}"),
            image_path: image_path.to_owned(),
            start_bytes,
            size_bytes: disk.size_bytes().saturating_sub(start_bytes),
            disk,
            partition: None,
            content: OnceLock::new(),
        }
    }

    pub(super) fn partition(image: &Path, disk: GuestDisk, partition: &Partition) -> Self {
        Self {
            name: format!("p{}", partition.number),
            image_path: image.to_owned(),
            disk,
            start_bytes: partition.start_bytes,
            size_bytes: partition.len_bytes,
            partition: Some(partition.clone()),
            content: OnceLock::new(),
        }
    }

    /// The name to choose it by: `p1`, `disk`, `@1048576`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it begins on the disk.
    pub fn start_bytes(&self) -> u64 {
        self.start_bytes
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The entry of the partition table, when it is a partition.
    pub fn entry(&self) -> Option<&Partition> {
        self.partition.as_ref()
    }

    /// The volume as a device.
    ///
    /// # Errors
    /// `Corrupt` for a partition that reaches past the end of the disk or overlaps another.
    pub fn device(&self) -> Result<Arc<dyn BlockRead>> {
        Ok(match self.slice(self.disk.read())? {
            Some(slice) => Arc::new(slice),
            None => self.disk.read(),
        })
    }

    /// The volume as a device that can be written.
    ///
    /// # Errors
    /// As [`device`](Self::device); `ReadOnly` when the disk is open for reading only.
    pub fn writable_device(&self) -> Result<Arc<dyn BlockWrite>> {
        let GuestDisk::Writable(disk) = &self.disk else {
            let reason = "the disk is open for reading only";
            return Err(self.in_image(Error::new(ErrorKind::ReadOnly, reason)));
        };
        Ok(match self.slice(Arc::clone(disk))? {
            Some(slice) => Arc::new(slice),
            None => Arc::clone(disk),
        })
    }

    /// The volume's part of the disk; `None` when that is all of it.
    fn slice<D: BlockRead + ?Sized>(&self, disk: Arc<D>) -> Result<Option<Slice<D>>> {
        let slice = match &self.partition {
            Some(partition) => partition.open(disk),
            None if self.start_bytes == 0 => return Ok(None),
            None => Slice::new(disk, self.start_bytes, self.size_bytes),
        };
        slice.map(Some).map_err(|e| self.in_image(e))
    }

    /// What it holds, told from magic numbers; `None` for nothing that is known.
    ///
    /// # Errors
    /// As [`device`](Self::device) and reading it.
    pub fn content(&self) -> Result<Option<&Content>> {
        if self.content.get().is_none() {
            let found = Content::probe(&*self.device()?).map_err(|e| self.in_image(e))?;
            let _ = self.content.set(found); // Another thread has read the same bytes.
        }
        Ok(self.content.get().and_then(Option::as_ref))
    }

    /// Opens its filesystem.
    ///
    /// # Errors
    /// `Unsupported`, with its name, for one that has no driver, and when there is none;
    /// `Corrupt`, `Io`.
    pub fn filesystem(&self) -> Result<Filesystem> {
        let content = self.known_content()?;
        match driver::open(content, self.device()?) {
            Some(opened) => {
                let fs = opened.map_err(|e| self.in_image(e))?;
                tracing::info!(volume = self.name, kind = content.kind, "filesystem opened");
                Ok(Filesystem::new(fs, &self.image_path, &self.name))
            }
            None => Err(self.unsupported(content)),
        }
    }

    /// Opens its filesystem for writing.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem); `ReadOnly` when the disk is open for reading only;
    /// `Unsupported` for a filesystem with something that is not written, before a byte of it is
    /// changed.
    pub fn writable_filesystem(&self, options: &WriteOptions) -> Result<WritableFilesystem> {
        let content = self.known_content()?;
        let device = self.writable_device()?;
        match driver::open_for_writing(content, device, *options) {
            Some(opened) => {
                let fs = opened.map_err(|e| self.in_image(e))?;
                tracing::info!(
                    volume = self.name,
                    kind = content.kind,
                    "opened for writing"
                );
                Ok(WritableFilesystem::new(fs, &self.image_path, &self.name))
            }
            None => Err(self.unsupported(content)),
        }
    }

    fn known_content(&self) -> Result<&Content> {
        self.content()?.ok_or_else(|| {
            let reason = format!("volume {} holds no filesystem that is known", self.name);
            self.in_image(Error::new(ErrorKind::Unsupported, reason))
        })
    }

    fn unsupported(&self, content: &Content) -> Error {
        let (name, kind) = (&self.name, content.kind);
        let reason = match content.class {
            ContentClass::Filesystem => {
                format!("volume {name} holds {kind}, which is not read yet")
            }
            class => format!("volume {name} holds {kind} ({class}), no filesystem that is read"),
        };
        self.in_image(Error::new(ErrorKind::Unsupported, reason))
    }

    fn in_image(&self, error: impl Into<Error>) -> Error {
        error.into().in_file(&self.image_path)
    }
}
