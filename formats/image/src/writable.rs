//! An image that is open for writing.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Result};

use crate::background_copy::BackgroundCopy;
use crate::description::Description;
use crate::map::Map;
use crate::node::Node;
use crate::open::{Opened, Opener};
use crate::source::Source;
use crate::{Gate, ImageSpec, OpenOptions};

/// An image, open for reading and writing; its backing files are only read.
///
/// Opening changes nothing before the first write. [`close`](Self::close) leaves an image without
/// leaked clusters. An image that is only dropped is flushed as far as possible, and errors are not
/// reported.
#[derive(Debug)]
pub struct WritableImage {
    node: Arc<Node>,
    description: Description,
}

impl WritableImage {
    /// Opens the image at `path` for writing, and the files that it names as far as the gate allows
    /// them. Other processes cannot use the image meanwhile, because of QEMU's locks.
    ///
    /// # Errors
    /// * As for [`Image::open`](crate::Image::open).
    /// * [`ReadOnly`] for a snapshot or a read-only filesystem of the host.
    /// * [`Locked`] if another process uses the image.
    /// * [`Corrupt`] for an image that is marked so.
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

    /// Opens an image by the user's spec, whose options override `options`.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_spec(spec: &ImageSpec, options: &OpenOptions) -> Result<Self> {
        Self::open(&spec.path, &spec.options_over(options))
    }

    /// Opens an image that is not a file, like [`Image::from_device`](crate::Image::from_device).
    /// On a device of fixed size, writes fail when it is full.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_device(device: Arc<dyn BlockWrite>, options: &OpenOptions) -> Result<Self> {
        Self::from_named_device("device".as_ref(), device, options)
    }

    /// Opens an image that is not a file, like [`from_device`](Self::from_device), with a name for
    /// messages.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_named_device(
        name: &Path,
        device: Arc<dyn BlockWrite>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let options = OpenOptions {
            gate: Gate::closed(),
            ..options.clone()
        };
        Opener::for_writing(&options)?
            .open_source(Source::of_device(name, device.clone(), Some(device)))
            .map(Self::from_parts)
    }

    /// Returns the image itself, if nothing else uses it.
    pub(crate) fn into_node(self) -> Option<Node> {
        Arc::into_inner(self.node)
    }

    pub(crate) const fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(crate) fn from_parts(opened: Opened) -> Self {
        let (node, description) = *opened;
        Self {
            node: Arc::new(node),
            description,
        }
    }

    /// Returns the guest's disk.
    pub fn device(&self) -> Arc<dyn BlockWrite> {
        self.node.clone()
    }

    /// Returns the description of the image at the time of opening.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Returns how the guest's disk is stored now, run by run, like
    /// [`Image::map`](crate::Image::map).
    pub fn map(&self) -> Map {
        Map::new(Arc::clone(&self.node))
    }

    /// Makes a range read as zeroes whatever backing file the image gets.
    pub(crate) fn hide(&self, offset: u64, len_bytes: u64) -> Result<()> {
        match self.node.as_ref() {
            Node::Raw(_) | Node::Mapped(..) => self.node.write_zeroes(offset, len_bytes),
            Node::Qcow2(qcow2, _) => qcow2.hide(offset, len_bytes),
        }
    }

    /// Prepares a copy of everything that the disk needs of the backing file into the image.
    ///
    /// # Errors
    /// [`Unsupported`](diskfs_block::ErrorKind::Unsupported) unless the image is qcow2 without
    /// internal snapshots: these may need the backing file, too.
    pub fn background_copy(&self) -> Result<BackgroundCopy> {
        BackgroundCopy::new(&self.node, &self.description)
    }

    /// Waits until everything that was written before is durable.
    ///
    /// # Errors
    /// As for [`BlockWrite::flush`].
    pub fn flush(&self) -> Result<()> {
        self.node.flush()
    }

    /// Makes everything durable and ends writing: freed clusters are released, and data that is
    /// written at the end (bitmaps) is stored. A remaining [`device`](Self::device) can only be
    /// read.
    ///
    /// # Errors
    /// As for [`BlockWrite::flush`].
    pub fn close(self) -> Result<()> {
        self.node.close()
    }
}
