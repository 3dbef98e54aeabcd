//! The image of an unfinished copy, by the way in which it is written.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{BlockRead, Result, Slice};

use super::packed::PackedImage;
use crate::convert::{ConvertOptions, convert_into};
use crate::create::{CreateOptions, Existing, NewImage, create};
use crate::{Gate, OpenOptions, Repair, WritableImage, repair};

/// The image of an unfinished copy, which is locked.
pub(super) enum PartialImage {
    /// An image that is written to like a disk.
    Writable(Box<WritableImage>),
    /// A compressed image.
    Packed(Box<PackedImage>),
}

impl PartialImage {
    /// Creates an image for a disk of this size.
    pub(super) fn create(path: &Path, size_bytes: u64, options: &ConvertOptions) -> Result<Self> {
        if let Some(packed) = PackedImage::create(path, size_bytes, options)? {
            return Ok(Self::Packed(Box::new(packed)));
        }
        let new = CreateOptions {
            image: options.image.clone(),
            size_bytes: Some(size_bytes),
            preallocation: options.preallocation,
            existing: Existing::Keep,
        };
        create(path, &new)?;
        Self::writable(path, &open_options(options))
    }

    /// Opens an image that an earlier call has left.
    pub(super) fn open(path: &Path, size_bytes: u64, options: &ConvertOptions) -> Result<Self> {
        if let Some(packed) = PackedImage::open(path, size_bytes, options)? {
            return Ok(Self::Packed(Box::new(packed)));
        }
        let open = open_options(options);
        // What an interrupted step has allocated and not yet used.
        if matches!(options.image, NewImage::Qcow2(_)) {
            repair(path, Repair::Leaks, &open)?;
        }
        Self::writable(path, &open)
    }

    fn writable(path: &Path, options: &OpenOptions) -> Result<Self> {
        let image = WritableImage::open(path, options)?;
        Ok(Self::Writable(Box::new(image)))
    }

    /// Takes the image as it was when the copy was recorded.
    pub(super) fn restore(&mut self, path: &Path, done_bytes: u64, end: Option<u64>) -> Result<()> {
        match self {
            Self::Writable(_) => Ok(()),
            Self::Packed(image) => image.restore(path, done_bytes, end),
        }
    }

    /// Copies a part of the disk, durably. Returns the end of a compressed image.
    pub(super) fn add(
        &mut self,
        part: &Slice<dyn BlockRead>,
        start: u64,
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<u64>> {
        match self {
            Self::Writable(image) => {
                let to = Slice::new(image.device(), start, part.size_bytes())?;
                convert_into(part, &to, true, options, progress)?;
                Ok(None)
            }
            Self::Packed(image) => image.add(part, start, options, progress).map(Some),
        }
    }

    /// Completes the image, durably.
    pub(super) fn close(self) -> Result<()> {
        match self {
            Self::Writable(image) => image.close(),
            Self::Packed(image) => image.close(),
        }
    }
}

fn open_options(options: &ConvertOptions) -> OpenOptions {
    OpenOptions {
        format: Some(options.image.format()),
        gate: Gate::closed(),
        ..OpenOptions::default()
    }
}
