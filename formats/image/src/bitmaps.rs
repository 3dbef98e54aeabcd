//! Persistent dirty bitmaps of qcow2 images: list, add, remove, clear, enable, disable, merge.
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

use std::path::Path;

use diskfs_block::{Error, Result};

use crate::description::Bitmap;
use crate::node::Node;
use crate::qcow2::BitmapChange;
use crate::{Image, OpenOptions, WritableImage};

/// The options of a new bitmap. By default it records, with QEMU's default granularity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewBitmap {
    /// The number of bytes of the disk that one bit covers: a power of two from 512 bytes to 2 GiB.
    /// The default is the cluster size, but at least 4 KiB and at most 64 KiB.
    pub granularity_bytes: Option<u64>,
    /// Whether writes are recorded.
    pub recording: Recording,
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
    let change = BitmapChange::Add {
        name,
        granularity_bytes: new.granularity_bytes,
        recording: new.recording == Recording::Enabled,
    };
    edit(path, options, change)?;
    let mut all = list(path, options)?.into_iter();
    all.find(|bitmap| bitmap.name == name).ok_or_else(|| {
        Error::invalid("the new bitmap was removed by another program").in_file(path)
    })
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

fn edit(path: &Path, options: &OpenOptions, change: BitmapChange<'_>) -> Result<()> {
    let image = WritableImage::open(path, options)?;
    image.edit_bitmaps(change).map_err(|e| match e.path() {
        Some(_) => e,
        None => e.in_file(path),
    })
}

fn only_qcow2() -> Error {
    Error::unsupported("bitmaps are not supported for images of this format, only for qcow2")
}

impl WritableImage {
    /// Changes a bitmap, and closes the image.
    pub(crate) fn edit_bitmaps(self, change: BitmapChange<'_>) -> Result<()> {
        match self.into_node() {
            Some(Node::Qcow2(qcow2, _)) => qcow2.edit_bitmaps(change),
            Some(Node::Raw(_) | Node::Mapped(..)) => Err(only_qcow2()),
            None => Err(Error::invalid(
                "cannot change a bitmap of an image that is in use",
            )),
        }
    }
}
