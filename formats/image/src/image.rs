//! An opened image.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use crate::description::Description;
use crate::map::Map;
use crate::node::Node;
use crate::open::{Opened, Opener};
use crate::shared;
use crate::source::Source;
use crate::{CheckReport, Gate, ImageSpec, OpenOptions, WritableImage};

/// An image, open for reading, with every file that it is made of.
///
/// Reads are parallel. The files stay open and locked until the image and every
/// [`device`](Self::device) of it are dropped.
///
/// Compressed clusters are decompressed by threads that belong to the image, so a process that
/// forks opens its images afterwards.
#[derive(Debug)]
pub struct Image {
    node: Arc<Node>,
    description: Description,
}

impl Image {
    /// Opens the image at `path`, and the files that it names as far as the gate lets them
    /// through.
    ///
    /// # Errors
    /// [`NotFound`] for a file or snapshot that is not there; [`Unsupported`] for another format or
    /// a feature that is not done here; [`Corrupt`] for an image that contradicts its specification;
    /// [`Denied`] for a file that the gate keeps shut; [`Locked`] when somebody writes to one of
    /// the files; [`Io`].
    ///
    /// [`NotFound`]: diskfs_block::ErrorKind::NotFound
    /// [`Unsupported`]: diskfs_block::ErrorKind::Unsupported
    /// [`Corrupt`]: diskfs_block::ErrorKind::Corrupt
    /// [`Denied`]: diskfs_block::ErrorKind::Denied
    /// [`Locked`]: diskfs_block::ErrorKind::Locked
    /// [`Io`]: diskfs_block::ErrorKind::Io
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        Opener::new(options)?.open_top(path).map(Self::from_parts)
    }

    /// Opens the image at `path` for reading and writing: short for [`WritableImage::open`].
    ///
    /// # Errors
    /// As [`WritableImage::open`].
    pub fn open_writable(path: &Path, options: &OpenOptions) -> Result<WritableImage> {
        WritableImage::open(path, options)
    }

    /// Opens an image as the user spelled it, with the spec's options over `options`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_spec(spec: &ImageSpec, options: &OpenOptions) -> Result<Self> {
        Self::open(&spec.path, &spec.options_over(options))
    }

    /// Opens an image that is not a file by itself: in memory, behind a network, inside another
    /// image. There is nothing to lock, and as there is no directory that it is in, the gate is
    /// closed: an image that names another file is refused.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_device(device: Arc<dyn BlockRead>, options: &OpenOptions) -> Result<Self> {
        let options = OpenOptions {
            gate: Gate::closed(),
            ..options.clone()
        };
        Opener::new(&options)?
            .open_source(Source::of_device(device, None))
            .map(Self::from_parts)
    }

    fn from_parts(opened: Opened) -> Self {
        let (node, description) = *opened;
        Self {
            node: Arc::new(node),
            description,
        }
    }

    /// The guest's disk.
    pub fn device(&self) -> Arc<dyn BlockRead> {
        self.node.clone()
    }

    /// What the image says about itself.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Compares the reference counts of a qcow2 image with what refers to its clusters, as
    /// `qemu-img check` does; `None` for a format without any. Only the top of the chain is looked
    /// at, and nothing is repaired. It reads all tables of the image.
    ///
    /// # Errors
    /// [`Corrupt`](diskfs_block::ErrorKind::Corrupt) when a table is too broken to go on;
    /// [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for a file with too many clusters to
    /// count; [`Io`](diskfs_block::ErrorKind::Io).
    pub fn check(&self) -> Result<Option<CheckReport>> {
        match self.node.as_ref() {
            Node::Raw(_) => Ok(None),
            Node::Qcow2(qcow2, _) => qcow2.check().map(Some),
        }
    }

    /// The image behind it, as it is seen through this one: opened already, with what let it through.
    /// `None` when there is nothing behind it.
    pub fn backing(&self) -> Option<Self> {
        let Node::Qcow2(_, backing) = self.node.as_ref() else {
            return None;
        };
        Some(Self {
            node: Arc::clone(backing.as_ref()?),
            description: self.description.backing.as_deref()?.clone(),
        })
    }

    /// Whether the disks of both surely have the same bytes in this range, by where they are stored:
    /// in the same clusters of one file, or nowhere. It does not read them, and `false` means nothing.
    ///
    /// # Errors
    /// [`OutOfBounds`](diskfs_block::ErrorKind::OutOfBounds) when the range does not lie within both;
    /// [`Corrupt`](diskfs_block::ErrorKind::Corrupt), [`Io`](diskfs_block::ErrorKind::Io).
    pub fn shares(&self, other: &Self, offset: u64, len_bytes: u64) -> Result<bool> {
        shared::shares(
            (&self.node, &self.description),
            (&other.node, &other.description),
            (offset, len_bytes),
        )
    }

    /// Fails for tables that nobody may go through as a whole.
    pub(crate) fn refuse_shared_l2_tables(&self) -> Result<()> {
        match self.node.as_ref() {
            Node::Raw(_) => Ok(()),
            Node::Qcow2(qcow2, _) => qcow2.refuse_shared_l2_tables(),
        }
    }

    /// How the guest's disk is stored, run by run, as `qemu-img map --output=json` tells it.
    pub fn map(&self) -> Map {
        Map::new(Arc::clone(&self.node))
    }
}
