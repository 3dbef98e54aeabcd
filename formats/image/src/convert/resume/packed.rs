//! The compressed image of an unfinished copy.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{BlockRead, Error, Result};

use super::STEP_UNIT_BYTES;
use crate::convert::qcow2::{Qcow2Copy, Qcow2Image};
use crate::convert::{ConvertOptions, Packing};
use crate::create::{NewImage, new_header};
use crate::lock::lock_for_writing;

/// A compressed image, which is written from its beginning to its end, its header last. So nothing
/// takes an unfinished one for an image.
pub(super) struct PackedImage {
    file: File,
    image: Qcow2Image,
    packing: Packing,
    /// The size of the disk in bytes.
    size_bytes: u64,
}

impl PackedImage {
    /// Creates the file; returns `None` if the image is not compressed.
    pub(super) fn create(
        path: &Path,
        size_bytes: u64,
        options: &ConvertOptions,
    ) -> Result<Option<Self>> {
        let mut new = OpenOptions::new();
        new.read(true).write(true).create_new(true);
        Self::with_file(path, size_bytes, options, &new)
    }

    /// Opens the file; returns `None` if the image is not compressed.
    pub(super) fn open(
        path: &Path,
        size_bytes: u64,
        options: &ConvertOptions,
    ) -> Result<Option<Self>> {
        let mut existing = OpenOptions::new();
        existing.read(true).write(true);
        Self::with_file(path, size_bytes, options, &existing)
    }

    fn with_file(
        path: &Path,
        size_bytes: u64,
        options: &ConvertOptions,
        open: &OpenOptions,
    ) -> Result<Option<Self>> {
        let (NewImage::Qcow2(new), Some(packing)) = (&options.image, options.packing) else {
            return Ok(None);
        };
        let header = new_header(path, new, size_bytes)?;
        let image = Qcow2Image::new(header, false)?;
        let file = open.open(path).map_err(|e| Error::from(e).in_file(path))?;
        lock_for_writing(&file, path)?;
        Ok(Some(Self {
            file,
            image,
            packing,
            size_bytes,
        }))
    }

    /// Takes the image as it was after the first `done_bytes` of the disk, when its end was `end`.
    pub(super) fn restore(&mut self, path: &Path, done_bytes: u64, end: Option<u64>) -> Result<()> {
        let is_step = done_bytes.is_multiple_of(STEP_UNIT_BYTES) || done_bytes == self.size_bytes;
        match end {
            None if done_bytes == 0 => Ok(self.file.set_len(0)?),
            Some(end) if is_step => {
                let stored = diskfs_block::File::from_fd(self.file.try_clone()?.into(), path)?;
                self.image.restore(&stored, done_bytes, end)?;
                Ok(self.file.set_len(end)?)
            }
            _ => Err(Error::invalid("the record is not of a compressed copy")),
        }
    }

    /// Copies a part of the disk, durably; returns the end of the image.
    pub(super) fn add(
        &mut self,
        part: &dyn BlockRead,
        start: u64,
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let copy = Qcow2Copy {
            from: part,
            start,
            file: &self.file,
            packing: Some(self.packing),
            threads: options.threads(),
        };
        copy.run(&mut self.image, progress)?;
        self.image.store(&self.file)
    }

    /// Completes the image, durably.
    pub(super) fn close(self) -> Result<()> {
        self.image.finish(&self.file)?;
        Ok(self.file.sync_all()?)
    }
}
