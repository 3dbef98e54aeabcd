//! Resizing of raw and qcow2 images in place.
//!
//! A new range at the end of the disk reads as zeroes, whatever the file or a backing file has
//! there. A crash leaves the old size or the new one; a qcow2 image has leaked clusters at most.
//!
//! The partitions and filesystems on the disk are not changed. Other images that use this one as
//! their backing file cannot be found: an overlay keeps its own size, but shows other bytes where
//! a shrunk backing file ended, and its record of the backing file makes it refuse to open.
//!
//! ```
//! use diskfs_image::{CreateOptions, OpenOptions, ResizeOptions, create, resize};
//! use diskfs_image::create::NewImage;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("disk.qcow2");
//! create(&path, &CreateOptions::new(NewImage::Qcow2(Box::default()), Some(1 << 20)))?;
//! let done = resize(&path, 1 << 30, ResizeOptions::default(), &OpenOptions::default())?;
//! assert_eq!(done.new_size_bytes, 1 << 30);
//! # Ok::<(), diskfs_block::Error>(())
//! ```

use std::path::Path;

use diskfs_block::{Error, Result};

use crate::create::{Preallocation, whole_sectors};
use crate::qcow2::Fill;
use crate::{Format, OpenOptions, WritableImage};

/// The options of a resize. The default grows an image without preallocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResizeOptions {
    /// The permission to remove the end of the disk.
    pub shrink: Shrink,
    /// The preallocation mode of a new range: off, metadata (qcow2 only) or full.
    pub preallocation: Preallocation,
}

/// The permission to make a disk smaller, which destroys the data past its new end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shrink {
    /// Refuse to make the disk smaller.
    #[default]
    Refused,
    /// Make the disk smaller, and free what is past its new end.
    Allowed,
}

/// The result of a resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resized {
    /// The previous size of the guest's disk in bytes.
    pub old_size_bytes: u64,
    /// The new size of the guest's disk in bytes, a multiple of 512.
    pub new_size_bytes: u64,
}

/// Changes the size of the disk of the image at `path` to `size_bytes`, rounded up to whole sectors
/// of 512 bytes.
///
/// # Errors
/// As for [`WritableImage::open`] and [`WritableImage::resize`].
pub fn resize(
    path: &Path,
    size_bytes: u64,
    how: ResizeOptions,
    options: &OpenOptions,
) -> Result<Resized> {
    let image = WritableImage::open(path, options)?;
    let resized = image.resize(size_bytes, how);
    resized.map_err(|e| e.in_file(path))
}

impl WritableImage {
    /// Changes the size of the disk to `size_bytes`, rounded up to whole sectors of 512 bytes, and
    /// closes the image. Every [`device`](Self::device) must have been dropped.
    ///
    /// Snapshots keep their size. If an error is returned, the disk has its old size, unless the
    /// error occurred after the new size was written (a failed flush).
    ///
    /// # Errors
    /// * [`Invalid`] if a device is still in use, for a smaller size without [`Shrink::Allowed`],
    ///   for a size that the image format does not allow, and for invalid preallocation.
    /// * [`Unsupported`] for a block device of the host, for a version 2 image with snapshots, for
    ///   bitmaps that do not fit the new size, and for preallocation by the host.
    /// * [`NoSpace`] if the host's disk is full.
    /// * [`Denied`] for an encrypted image without a key.
    /// * [`Corrupt`] and [`Io`] as for writing.
    ///
    /// [`Invalid`]: diskfs_block::ErrorKind::Invalid
    /// [`Unsupported`]: diskfs_block::ErrorKind::Unsupported
    /// [`NoSpace`]: diskfs_block::ErrorKind::NoSpace
    /// [`Denied`]: diskfs_block::ErrorKind::Denied
    /// [`Corrupt`]: diskfs_block::ErrorKind::Corrupt
    /// [`Io`]: diskfs_block::ErrorKind::Io
    pub fn resize(self, size_bytes: u64, how: ResizeOptions) -> Result<Resized> {
        let new_size_bytes = whole_sectors(size_bytes)?;
        let old_size_bytes = self.description().virtual_size_bytes;
        let fill = fill_of(how.preallocation, self.description().format)?;
        if new_size_bytes < old_size_bytes {
            check_shrink(old_size_bytes, new_size_bytes, how)?;
        }
        let node = self.into_node().ok_or_else(|| {
            Error::invalid("cannot resize an image while its device is in use")
                .with_hint("drop the device first")
        })?;
        node.resize(new_size_bytes, fill)?;
        Ok(Resized {
            old_size_bytes,
            new_size_bytes,
        })
    }
}

fn check_shrink(old_bytes: u64, new_bytes: u64, how: ResizeOptions) -> Result<()> {
    if how.shrink == Shrink::Refused {
        let reason = format!(
            "refusing to shrink the disk from {old_bytes} to {new_bytes} bytes: data past the new \
             end would be lost"
        );
        return Err(Error::invalid(reason)
            .with_hint("shrink the last partition first, and then request the shrink explicitly"));
    }
    if how.preallocation != Preallocation::Off {
        return Err(Error::invalid(
            "preallocation is only possible when the disk grows",
        ));
    }
    Ok(())
}

fn fill_of(preallocation: Preallocation, format: Option<Format>) -> Result<Fill> {
    match preallocation {
        Preallocation::Off => Ok(Fill::Nothing),
        Preallocation::Metadata if format == Some(Format::Raw) => {
            let reason = "preallocation=metadata is not supported for raw images, which have no \
                          metadata";
            Err(Error::invalid(reason).with_hint("use off or full"))
        }
        Preallocation::Metadata => Ok(Fill::Clusters),
        Preallocation::Full => Ok(Fill::Zeroes),
        Preallocation::Falloc => Err(Error::unsupported(
            "preallocation=falloc is not supported for a resize",
        )
        .with_hint("use preallocation=full to write zeroes")),
    }
}
