//! An image that is open for writing.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Result};

use crate::description::Description;
use crate::map::Map;
use crate::node::Node;
use crate::open::{Opened, Opener};
use crate::source::Source;
use crate::{Gate, ImageSpec, OpenOptions};

/// An image, open for reading and writing; the files behind it are only read.
///
/// Nothing is written before the first write. [`close`](Self::close) leaves an image without
/// leaked clusters; one that is only dropped is flushed as far as that goes, and nobody hears of
/// what fails.
#[derive(Debug)]
pub struct WritableImage {
    node: Arc<Node>,
    description: Description,
}

impl WritableImage {
    /// Opens the image at `path` for writing, and the files that it names as far as the gate lets
    /// them through. Nobody else may use the image meanwhile, on either side of QEMU's locks.
    ///
    /// # Errors
    /// As [`Image::open`](crate::Image::open); [`ReadOnly`] for a snapshot or a host filesystem
    /// that is read-only; [`Locked`] when anybody else uses the image; [`Corrupt`] for one that is
    /// marked so.
    ///
    /// [`ReadOnly`]: diskfs_block::ErrorKind::ReadOnly
    /// [`Locked`]: diskfs_block::ErrorKind::Locked
    /// [`Corrupt`]: diskfs_block::ErrorKind::Corrupt
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        Opener::for_writing(options)
            .and_then(|mut opener| opener.open_top(path))
            .map(Self::from_parts)
            .map_err(|e| e.in_file(path))
    }

    /// Opens an image as the user spelled it, with the spec's options over `options`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_spec(spec: &ImageSpec, options: &OpenOptions) -> Result<Self> {
        Self::open(&spec.path, &spec.options_over(options))
    }

    /// Opens an image that is not a file by itself, as
    /// [`Image::from_device`](crate::Image::from_device) does. A device whose size is fixed takes
    /// what fits into it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_device(device: Arc<dyn BlockWrite>, options: &OpenOptions) -> Result<Self> {
        let options = OpenOptions {
            gate: Gate::closed(),
            ..options.clone()
        };
        Opener::for_writing(&options)?
            .open_source(Source::of_device(device.clone(), Some(device)))
            .map(Self::from_parts)
    }

    pub(crate) fn from_parts(opened: Opened) -> Self {
        let (node, description) = *opened;
        Self {
            node: Arc::new(node),
            description,
        }
    }

    /// The guest's disk.
    pub fn device(&self) -> Arc<dyn BlockWrite> {
        self.node.clone()
    }

    /// What the image said about itself when it was opened.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// How the guest's disk is stored now, run by run, as [`Image::map`](crate::Image::map) tells
    /// it.
    pub fn map(&self) -> Map {
        Map::new(Arc::clone(&self.node))
    }

    /// The same from byte `at` of the disk on.
    pub(crate) fn map_from(&self, at: u64) -> Map {
        Map::from(Arc::clone(&self.node), at)
    }

    /// Makes a range read as zeroes whatever is put behind the image.
    pub(crate) fn hide(&self, offset: u64, len_bytes: u64) -> Result<()> {
        match self.node.as_ref() {
            Node::Raw(_) => self.node.write_zeroes(offset, len_bytes),
            Node::Qcow2(qcow2, _) => qcow2.hide(offset, len_bytes),
        }
    }

    /// Returns when everything written before it is durable.
    ///
    /// # Errors
    /// As [`BlockWrite::flush`].
    pub fn flush(&self) -> Result<()> {
        self.node.flush()
    }

    /// Makes everything durable and ends writing: what was freed is given back, what is kept until
    /// the end (bitmaps) is stored. A [`device`](Self::device) that is left can only be read.
    ///
    /// # Errors
    /// As [`BlockWrite::flush`].
    pub fn close(self) -> Result<()> {
        self.node.close()
    }
}
