//! An opened image.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, File, Result};

use crate::description::Description;
use crate::map::Map;
use crate::node::Node;
use crate::open::{Opened, Opener};
use crate::shared;
use crate::source::Source;
use crate::{CheckReport, Gate, ImageSpec, OpenOptions, WritableImage};

/// An image, open for reading, with all its files.
///
/// Reads are parallel. The files stay open and locked until the image and every
/// [`device`](Self::device) of it are dropped.
///
/// Compressed clusters are decompressed by threads that belong to the image, so a process that
/// forks must open its images afterwards.
#[derive(Debug)]
pub struct Image {
    node: Arc<Node>,
    description: Description,
}

impl Image {
    /// Opens the image at `path`, and the files that it names as far as the gate allows them.
    ///
    /// # Errors
    /// * [`NotFound`] for a missing file or snapshot.
    /// * [`Unsupported`] for an unsupported format or feature.
    /// * [`Corrupt`] for an image that contradicts its specification.
    /// * [`Denied`] for a file that the gate refuses.
    /// * [`Locked`] if another process writes to one of the files.
    /// * [`Io`] if the host cannot read a file.
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

    /// Describes the image at `path`. If it is a qcow2 image, the files that it names are not
    /// opened and need not exist, so the description has no backing file; `data_file` is the name
    /// as the image spells it.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn describe(path: &Path, options: &OpenOptions) -> Result<Description> {
        Opener::new(options)?.describe_top(path)
    }

    /// Opens the image at `path` for reading and writing: short for [`WritableImage::open`].
    ///
    /// # Errors
    /// As for [`WritableImage::open`].
    pub fn open_writable(path: &Path, options: &OpenOptions) -> Result<WritableImage> {
        WritableImage::open(path, options)
    }

    /// Opens an image by the user's spec, whose options override `options`.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_spec(spec: &ImageSpec, options: &OpenOptions) -> Result<Self> {
        Self::open(&spec.path, &spec.options_over(options))
    }

    /// Opens an image that is not a file: in memory, on the network, inside another image. It is
    /// not locked. Since it is in no directory, the gate is closed: an image that names another
    /// file is refused.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_device(device: Arc<dyn BlockRead>, options: &OpenOptions) -> Result<Self> {
        Self::from_named_device("device".as_ref(), device, options)
    }

    /// Opens an image that is not a file, like [`from_device`](Self::from_device), with a name for
    /// messages.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_named_device(
        name: &Path,
        device: Arc<dyn BlockRead>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let options = OpenOptions {
            gate: Gate::closed(),
            ..options.clone()
        };
        Opener::new(&options)?
            .open_source(Source::of_device(name, device, None))
            .map(Self::from_parts)
    }

    fn from_parts(opened: Opened) -> Self {
        let (node, description) = *opened;
        Self {
            node: Arc::new(node),
            description,
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the image itself, which stays open with it.
    pub(crate) const fn shared_node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Returns the guest's disk.
    pub fn device(&self) -> Arc<dyn BlockRead> {
        self.node.clone()
    }

    /// Returns the file of the host that has the bytes of the disk: of a raw image. It stays open and
    /// locked.
    pub fn raw_file(&self) -> Option<Arc<File>> {
        match self.node.as_ref() {
            Node::Raw(raw) => raw.host().cloned(),
            Node::Qcow2(..) | Node::Mapped(..) => None,
        }
    }

    /// Returns the description of the image.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Checks the metadata of a qcow2, VMDK, VDI, VHDX, QED or Parallels image, as `qemu-img check`
    /// does: of qcow2 the reference counts, "copied" flags and the entries of all tables, of the
    /// others the tables of blocks, clusters or grains. Returns `None` for other formats. Checks only
    /// the top of the chain, repairs nothing (see [`repair()`](crate::repair())), and reads all
    /// tables of the image, of a file with many clusters several times.
    ///
    /// # Errors
    /// * [`Corrupt`](diskfs_block::ErrorKind::Corrupt) if tables overlap so that reading them would
    ///   take too long.
    /// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for a file with too many clusters to
    ///   count.
    /// * [`Io`](diskfs_block::ErrorKind::Io) if the host cannot read the file.
    pub fn check(&self) -> Result<Option<CheckReport>> {
        match self.node.as_ref() {
            Node::Raw(_) => Ok(None),
            Node::Mapped(mapped, _) => mapped.check(),
            Node::Qcow2(qcow2, _) => qcow2.check().map(Some),
        }
    }

    /// Returns the backing file as an image, which is already open and passed the gate; `None` if
    /// there is none.
    pub fn backing(&self) -> Option<Self> {
        let (Node::Qcow2(_, backing) | Node::Mapped(_, backing)) = self.node.as_ref() else {
            return None;
        };
        Some(Self {
            node: Arc::clone(backing.as_ref()?),
            description: self.description.backing.as_deref()?.clone(),
        })
    }

    /// Returns true if the disks of both images certainly have the same bytes in this range,
    /// because they are stored in the same clusters of one file, or nowhere. The bytes are not
    /// read, so the disks may be equal even if the result is `false`.
    ///
    /// # Errors
    /// [`OutOfBounds`](diskfs_block::ErrorKind::OutOfBounds) if the range does not lie within both;
    /// [`Corrupt`](diskfs_block::ErrorKind::Corrupt), [`Io`](diskfs_block::ErrorKind::Io).
    pub fn shares(&self, other: &Self, offset: u64, len_bytes: u64) -> Result<bool> {
        shared::shares(
            (&self.node, &self.description),
            (&other.node, &other.description),
            (offset, len_bytes),
        )
    }

    /// Fails if L2 tables are shared, because walking all of them could then take too long.
    pub(crate) fn refuse_shared_l2_tables(&self) -> Result<()> {
        match self.node.as_ref() {
            Node::Raw(_) | Node::Mapped(..) => Ok(()),
            Node::Qcow2(qcow2, _) => qcow2.refuse_shared_l2_tables(),
        }
    }

    /// Returns how the guest's disk is stored, run by run, as in `qemu-img map --output=json`.
    pub fn map(&self) -> Map {
        Map::new(Arc::clone(&self.node))
    }
}
