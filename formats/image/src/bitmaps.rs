//! Persistent dirty bitmaps of qcow2 images: list, add, remove, clear, enable, disable, merge, copy.
//!
//! A bitmap marks the parts of the disk that were written since it was added or cleared, so that a
//! backup can copy these parts alone. Every program that supports bitmaps marks its writes in the
//! recording ones, as [`WritableImage`] does.
//!
//! Each operation is atomic, whatever interrupts it: the new state is written to unused clusters,
//! and one sector of the header activates it. An operation that fails changes nothing.
//!
//! ```
//! use diskfs_image::bitmaps::{self, NewBitmap};
//! use diskfs_image::{CreateOptions, OpenOptions, WritableImage, create};
//! use diskfs_image::create::NewImage;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("disk.qcow2");
//! create(&path, &CreateOptions::new(NewImage::Qcow2(Box::default()), Some(1 << 20)))?;
//! let options = OpenOptions::default();
//! bitmaps::add(&path, "monday", NewBitmap::default(), &options)?;
//! assert_eq!(bitmaps::list(&path, &options)?[0].granularity_bytes, 64 << 10);
//! # Ok::<(), diskfs_block::Error>(())
//! ```

mod marked;
mod set;

use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};

use crate::description::Bitmap;
use crate::node::Node;
use crate::qcow2::{BitmapChange, Existing, PreparedChange};
use crate::{Image, OpenOptions, WritableImage};
pub use marked::MarkedDisk;
pub use set::{BitmapSet, Inconsistent};

/// The options of a new bitmap. By default it records, with QEMU's default granularity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewBitmap {
    /// The number of bytes of the disk that one bit covers: a power of two from 512 bytes to 2 GiB.
    /// The default is the cluster size, but at least 4 KiB and at most 64 KiB.
    pub granularity_bytes: Option<u64>,
    /// The state in which the bitmap begins.
    pub recording: Recording,
}

impl NewBitmap {
    fn change(self, name: &str, existing: Existing) -> BitmapChange<'_> {
        BitmapChange::Add {
            name,
            granularity_bytes: self.granularity_bytes,
            recording: self.recording == Recording::Enabled,
            existing,
        }
    }
}

/// The treatment of writes to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recording {
    /// Every write is marked in the bitmap.
    #[default]
    Enabled,
    /// The bitmap does not change.
    Disabled,
}

/// The bitmap whose marks are merged into another one.
#[derive(Debug, Clone, Copy)]
pub struct MergeSource<'a> {
    /// The name of the bitmap.
    pub bitmap: &'a str,
    /// The image with the bitmap, and how to open it; `None` for the image that is changed.
    pub image: Option<(&'a Path, &'a OpenOptions)>,
}

/// Lists the bitmaps of the image at `path`, in their order.
///
/// # Errors
/// As for [`Image::open`].
pub fn list(path: &Path, options: &OpenOptions) -> Result<Vec<Bitmap>> {
    let image = Image::open(path, options)?;
    let details = image.description().qcow2.as_ref();
    Ok(details.map_or_else(Vec::new, |details| details.bitmaps.clone()))
}

/// Adds a bitmap without marks, and returns it.
///
/// # Errors
/// * As for [`WritableImage::open`].
/// * [`Exists`](diskfs_block::ErrorKind::Exists) if a bitmap has that name.
/// * [`Invalid`](diskfs_block::ErrorKind::Invalid) for a name that is empty or longer than 1023
///   bytes, an invalid granularity, or one that is too small for the disk.
/// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for a raw image, one of version 2, and
///   one with as many bitmaps as QEMU allows.
/// * [`NoSpace`](diskfs_block::ErrorKind::NoSpace) if the host's disk is full.
pub fn add(path: &Path, name: &str, new: NewBitmap, options: &OpenOptions) -> Result<Bitmap> {
    edit(path, options, new.change(name, Existing::Refused))?;
    let mut all = list(path, options)?.into_iter();
    all.find(|bitmap| bitmap.name == name).ok_or_else(|| {
        Error::invalid("the new bitmap was removed by another program").in_file(path)
    })
}

/// Adds a bitmap of the same name to several images, the disks of one machine, all at the same
/// point in time: every image is locked before the first one changes. An image with a bitmap of
/// that name that has no marks, and the wanted properties, is complete already.
///
/// Everything is prepared in all images first, so that one write to each of them is left. If it
/// fails, no image has the new bitmap. A crash between these writes leaves the bitmap in some of the
/// images. The same call completes it, as long as nothing was written to their disks since;
/// otherwise it fails, because the bitmaps would be of different times.
///
/// # Errors
/// As for [`add`], with the image.
pub fn checkpoint(images: &[(&Path, &OpenOptions)], name: &str, new: NewBitmap) -> Result<()> {
    let nodes = images
        .iter()
        .map(|(path, options)| open(path, options))
        .collect::<Result<Vec<Node>>>()?;
    let change = new.change(name, Existing::KeptIfUnmarked);
    for (node, (path, _)) in nodes.iter().zip(images) {
        check(node, change).map_err(|e| e.in_file(path))?;
    }
    let mut prepared: Vec<PreparedChange<'_>> = Vec::new();
    for (node, (path, _)) in nodes.iter().zip(images) {
        match prepare(node, change) {
            Ok(change) => prepared.push(change),
            Err(e) => {
                prepared.into_iter().for_each(PreparedChange::cancel);
                return Err(e.in_file(path));
            }
        }
    }
    let (mut added, mut failed) = (Vec::new(), None);
    for (change, (path, options)) in prepared.into_iter().zip(images) {
        if failed.is_some() {
            change.cancel();
            continue;
        }
        if change.is_new() {
            added.push((path, options));
        }
        failed = change.activate().map_err(|e| e.in_file(path)).err();
    }
    let Some(failed) = failed else {
        return Ok(());
    };
    drop(nodes);
    for (path, options) in added {
        if let Err(e) = remove(path, name, options)
            && e.kind() != ErrorKind::NotFound
        {
            tracing::warn!("a bitmap of a checkpoint that failed stays: {e}");
        }
    }
    Err(failed)
}

/// Removes a bitmap, also one that was not saved properly.
///
/// # Errors
/// * As for [`WritableImage::open`].
/// * [`NotFound`](diskfs_block::ErrorKind::NotFound) if the image has no such bitmap.
/// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for a raw image, one of version 2, and a
///   bitmap of an unknown type.
pub fn remove(path: &Path, name: &str, options: &OpenOptions) -> Result<()> {
    edit(path, options, BitmapChange::Remove { name })
}

/// Removes all marks of a bitmap.
///
/// # Errors
/// As for [`remove`]; [`Invalid`](diskfs_block::ErrorKind::Invalid) for a bitmap that was not saved
/// properly.
pub fn clear(path: &Path, name: &str, options: &OpenOptions) -> Result<()> {
    edit(path, options, BitmapChange::Clear { name })
}

/// Enables or disables the recording of writes in a bitmap.
///
/// # Errors
/// As for [`clear`].
pub fn set_recording(
    path: &Path,
    name: &str,
    recording: Recording,
    options: &OpenOptions,
) -> Result<()> {
    let recording = recording == Recording::Enabled;
    edit(
        path,
        options,
        BitmapChange::SetRecording { name, recording },
    )
}

/// Adds the marks of another bitmap, of this image or of another one whose disk has the same size.
/// The granularities can differ.
///
/// # Errors
/// As for [`clear`]; [`Invalid`](diskfs_block::ErrorKind::Invalid) if the disks have different
/// sizes; as for [`Image::open`] for the image with the source.
pub fn merge(
    path: &Path,
    name: &str,
    source: MergeSource<'_>,
    options: &OpenOptions,
) -> Result<()> {
    let other = source
        .image
        .map(|(path, options)| Image::open(path, options));
    let other = other.transpose()?;
    let tables = match (&other, source.image) {
        (Some(image), Some((path, _))) => match image.node() {
            Node::Qcow2(qcow2, _) => Some(qcow2.tables()),
            Node::Raw(_) | Node::Mapped(..) => return Err(only_qcow2().in_file(path)),
        },
        _ => None,
    };
    let change = BitmapChange::Merge {
        name,
        source: source.bitmap,
        image: tables,
    };
    edit(path, options, change)
}

/// Adds the bitmaps of another image, with their marks, granularities and states of recording: all
/// of them, or none if it fails. The disks must have the same size, and should have the same
/// contents.
///
/// # Errors
/// * As for [`add`]; `Exists` if the image has a bitmap with the name of one of the source's.
/// * [`Invalid`](diskfs_block::ErrorKind::Invalid) if the disks have different sizes.
/// * [`Corrupt`](diskfs_block::ErrorKind::Corrupt) for bitmaps of the source that contradict the
///   specification.
pub fn copy(path: &Path, bitmaps: &BitmapSet, options: &OpenOptions) -> Result<()> {
    edit(path, options, BitmapChange::Copy(bitmaps.source()?))
}

/// Fails if [`copy`] to an open image would fail, as far as that is known before.
///
/// # Errors
/// As for [`copy`].
pub fn check_copy(image: &WritableImage, bitmaps: &BitmapSet) -> Result<()> {
    let change = BitmapChange::Copy(bitmaps.source()?);
    check(image.node(), change).map_err(|e| e.in_file(&image.description().path))
}

fn edit(path: &Path, options: &OpenOptions, change: BitmapChange<'_>) -> Result<()> {
    let node = open(path, options)?;
    prepare(&node, change)
        .and_then(PreparedChange::activate)
        .map_err(|e| e.in_file(path))
}

/// Opens an image to change its bitmaps.
fn open(path: &Path, options: &OpenOptions) -> Result<Node> {
    let image = WritableImage::open(path, options)?;
    let node = image.into_node();
    node.ok_or_else(|| Error::invalid("the image is in use").in_file(path))
}

fn check(node: &Node, change: BitmapChange<'_>) -> Result<()> {
    match node {
        Node::Qcow2(qcow2, _) => qcow2.check_change(change),
        Node::Raw(_) | Node::Mapped(..) => Err(only_qcow2()),
    }
}

pub(crate) fn prepare<'a>(node: &'a Node, change: BitmapChange<'_>) -> Result<PreparedChange<'a>> {
    match node {
        Node::Qcow2(qcow2, _) => qcow2.prepare_change(change),
        Node::Raw(_) | Node::Mapped(..) => Err(only_qcow2()),
    }
}

fn only_qcow2() -> Error {
    Error::unsupported("bitmaps are not supported for images of this format, only for qcow2")
}
