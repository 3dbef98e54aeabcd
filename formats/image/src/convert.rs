//! Copying of a disk into a new image of another format, or to a device.

mod bitmaps;
mod compare;
mod device;
mod identity;
mod in_order;
mod input;
mod layout;
mod measure;
mod packer;
mod parallel;
mod pieces;
mod qcow2;
mod qcow2_stream;
mod reflink;
mod resume;
mod salvage;
mod sequential;
mod stream;
mod tables;
mod target;
mod throttle;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{
    BlockRead, BlockWrite, Error, ErrorKind, File, Result, check_cancelled, processors,
};
use uuid::Uuid;

use crate::bitmaps::BitmapSet;
use crate::create::{
    BackingCheck, CreateOptions, Existing, NewImage, Preallocation, UnfinishedImage, directory_of,
};
use crate::{Access, Gate, Image, OpenOptions, WritableImage};
pub use compare::compare;
use device::DeviceCopy;
pub use input::InputStream;
pub use measure::{Measured, measure};
pub use packer::Packing;
use pieces::PIECE_BYTES;
pub use resume::convert_resumable;
pub use salvage::{LostRange, Salvaged};
pub use stream::convert_to_stream;
pub use throttle::Throttled;

/// The largest number of threads. Each needs some megabytes.
const THREADS_MAX: usize = 16;

/// The options for copying a disk into a new image. Use `..Default::default()` for the rest.
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    /// The format of the new image, with the options of that format. If a qcow2 image has a backing
    /// file, only what the source's own top image stores is copied: the rest is read from the
    /// backing file, which must have the same contents as the source's.
    pub image: NewImage,
    /// The compression of clusters; `None` to store them as they are. A VMDK stream is always
    /// compressed: `None` for the default level.
    pub packing: Option<Packing>,
    /// The preallocation mode.
    pub preallocation: Preallocation,
    /// The granularity at which zeroes are found in the source's data and not stored, for a raw
    /// image and for one of blocks: a power of two from 512 to 1 MiB; `None` to store all of them. A
    /// qcow2 image omits clusters of zeroes, a VMDK stream grains of zeroes.
    pub sparse_bytes: Option<u64>,
    /// The number of threads; `None` for as many as there are processors.
    pub threads: Option<NonZeroUsize>,
    /// The treatment of an existing file.
    pub existing: Existing,
    /// The identifier that the image stores, if its format has one (VMDK, VHD, VDI, VHDX). Further
    /// identifiers of the image derive from it. `None` for a random one.
    pub identity: Option<Uuid>,
    /// The bitmaps to copy into the new image, which is qcow2. They are those of the image whose
    /// whole disk is copied.
    pub bitmaps: Option<BitmapSet>,
    /// The file of the host that has the same bytes as the disk, [`Image::raw_file`]. A new raw image
    /// shares its blocks, if the host's filesystem can do that.
    pub shared: Option<Arc<File>>,
    /// The part of the disk that is copied.
    pub scope: Scope,
}

/// The part of a disk that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The whole disk, except for what the backing file of the new image has.
    #[default]
    Whole,
    /// Only what the source itself stores ([`BlockRead::stored_at`]), zeroes included, into a qcow2
    /// image, whether it has a backing file or gets one later.
    Stored,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            image: NewImage::Qcow2(Box::default()),
            packing: None,
            preallocation: Preallocation::default(),
            sparse_bytes: Some(device::SPARSE_BYTES),
            threads: None,
            existing: Existing::default(),
            identity: None,
            bitmaps: None,
            shared: None,
            scope: Scope::default(),
        }
    }
}

impl ConvertOptions {
    /// Returns the options for a qcow2 image with compressed clusters.
    pub fn compressed() -> Self {
        Self {
            packing: Some(Packing { level: None }),
            ..Self::default()
        }
    }

    fn threads(&self) -> NonZeroUsize {
        let threads = self.threads.unwrap_or_else(processors);
        NonZeroUsize::new(THREADS_MAX).map_or(threads, |max| threads.min(max))
    }

    fn check_sparse(&self) -> Result<()> {
        match self.sparse_bytes {
            Some(bytes) if !(512..=PIECE_BYTES).contains(&bytes) || !bytes.is_power_of_two() => {
                let reason = format!(
                    "invalid granularity of zeroes {bytes}: expected a power of two from 512 to 1M"
                );
                Err(Error::invalid(reason))
            }
            _ => Ok(()),
        }
    }
}

/// Copies a disk into a new image. The same contents and options always make the same file, on any
/// number of threads, except for identifiers that are random (`ConvertOptions::identity`).
///
/// The file appears under its name only when it is complete and durable. Calls `progress` with the
/// number of bytes of the disk that were done, holes included.
///
/// # Errors
/// `Exists` if there is such a file; `Invalid` for options that cannot be combined; the errors of
/// both files; `Cancelled`.
pub fn convert(
    from: &dyn BlockRead,
    path: &Path,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    UnfinishedImage::converted(from, path, options, progress)?.finish()
}

/// Copies a disk into a new image like [`convert`], reads the image again before it gets its name,
/// and compares it with the disk.
///
/// # Errors
/// As for [`convert`]; `Io` if the image has other contents: the host has not stored what was
/// written, or the source was changed meanwhile.
pub fn convert_verified(
    from: &dyn BlockRead,
    path: &Path,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let new = UnfinishedImage::converted(from, path, options, progress)?;
    new.verify(from, options).map_err(|e| e.in_file(path))?;
    new.finish()
}

/// Copies a disk to a device of at least its size, such as an existing image or a block device, and
/// flushes it.
///
/// `is_zeroed` is true if the device reads as zeroes. Of the options only those for zeroes and
/// threads are used: [`bitmaps::copy`](crate::bitmaps::copy()) copies bitmaps afterwards.
///
/// # Errors
/// `Invalid` if the device is too small; the errors of both; `Cancelled`.
pub fn convert_into(
    from: &dyn BlockRead,
    to: &dyn BlockWrite,
    is_zeroed: bool,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let copy = DeviceCopy {
        from,
        to,
        is_zeroed,
        is_backed: false,
        sparse_bytes: options.sparse_bytes,
        threads: options.threads(),
    };
    copy_to_device(copy, options, progress)
}

fn copy_to_device(
    copy: DeviceCopy<'_>,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    options.check_sparse()?;
    let (needed, there) = (copy.from.size_bytes(), copy.to.size_bytes());
    if there < needed {
        let reason = format!("the target is too small: {there} bytes for a disk of {needed}");
        return Err(Error::invalid(reason));
    }
    copy.run(progress)?;
    copy.to.flush()
}

impl UnfinishedImage {
    /// Copies a disk into a new image, as [`convert`] does, that does not have its name yet.
    ///
    /// # Errors
    /// As for [`convert`].
    pub fn converted(
        from: &dyn BlockRead,
        path: &Path,
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        let in_file = |error: Error| error.in_file(path);
        bitmaps::check(from, options).map_err(in_file)?;
        let new = target::converted(from, path, options, progress).map_err(in_file)?;
        if let Some(bitmaps) = &options.bitmaps {
            bitmaps::add(&new, path, bitmaps, &options.image).map_err(in_file)?;
        }
        Ok(new)
    }
}

impl UnfinishedImage {
    /// Returns the disk of the image.
    fn contents(&self, options: &ConvertOptions) -> Result<Arc<dyn BlockRead>> {
        if let NewImage::Luks(encryption) = &options.image {
            let file = self.opener().open(self.path(), Access::ReadWrite)?;
            return Ok(encryption.contents(file)?);
        }
        let image = Image::open(self.path(), &open_options(self, options))?;
        Ok(image.device())
    }

    /// Compares the image with the disk that was copied.
    fn verify(&self, from: &dyn BlockRead, options: &ConvertOptions) -> Result<()> {
        let to = self.contents(options)?;
        let mut go_on = |_| ControlFlow::Continue(());
        match compare(from, &*to, options.threads, &mut go_on)? {
            None => Ok(()),
            Some(offset) => {
                let reason = "the new image differs from its source, which may have been changed \
                     meanwhile";
                let error = Error::new(ErrorKind::Io, reason).at(offset);
                Err(match options.scope {
                    Scope::Whole => error,
                    Scope::Stored => error.with_hint(
                        "if it was not, the backing file is not the disk of the time since which \
                         changes were marked: give the right one, or copy the whole disk",
                    ),
                })
            }
        }
    }
}

/// Returns the gate for the files that a new image names.
fn gate(path: &Path, image: &NewImage) -> Gate {
    match image {
        NewImage::Qcow2(image) => match (&image.data_file, &image.backing) {
            (Some(file), _) => Gate::closed().allow_data_file(directory_of(path).join(&file.name)),
            (None, Some(backing)) => match &backing.check {
                BackingCheck::Open(gate) | BackingCheck::OpenUnrecorded(gate) => gate.clone(),
                BackingCheck::ByCaller | BackingCheck::Remote { .. } | BackingCheck::Skip => {
                    Gate::closed()
                }
            },
            (None, None) => Gate::closed(),
        },
        _ => Gate::closed(),
    }
}

/// Creates an empty image and writes to it.
fn by_writing(
    from: &dyn BlockRead,
    path: &Path,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<UnfinishedImage> {
    if options.packing.is_some() {
        let reason = "compression needs a qcow2 image without preallocation, data file or \
             encryption, or a VMDK stream";
        return Err(Error::invalid(reason));
    }
    let backed = match &options.image {
        NewImage::Qcow2(image) if image.backing.is_some() => Some(image),
        _ => None,
    };
    if backed.is_some_and(|image| image.data_file.is_some())
        || backed.is_some() && options.preallocation != Preallocation::Off
    {
        let reason = "a copy with a backing file has no preallocation and no data file";
        return Err(Error::invalid(reason));
    }
    options.check_sparse()?;
    let create = CreateOptions {
        image: options.image.clone(),
        size_bytes: Some(from.size_bytes()),
        preallocation: options.preallocation,
        existing: options.existing,
    };
    let new = UnfinishedImage::create(path, &create)?;
    if let NewImage::Luks(encryption) = &options.image {
        let file = new.opener().open(path, Access::ReadWrite)?;
        let contents = encryption.contents(file)?;
        convert_into(from, contents.as_ref(), false, options, progress)?;
        let (end, size) = (from.size_bytes(), contents.size_bytes());
        contents.write_zeroes(end, size.saturating_sub(end))?;
        return Ok(new);
    }
    if reflink::share_blocks(from, &new, options)? {
        check_cancelled(progress(from.size_bytes()))?;
        return Ok(new);
    }
    let image = WritableImage::open(path, &open_options(&new, options))?;
    // Clusters that are allocated and not written decrypt to noise.
    let is_noise =
        options.image.encryption().is_some() && options.preallocation != Preallocation::Off;
    let device = image.device();
    let copy = DeviceCopy {
        from,
        to: device.as_ref(),
        is_zeroed: !is_noise && backed.is_none(),
        is_backed: backed.is_some(),
        sparse_bytes: options.sparse_bytes,
        threads: options.threads(),
    };
    copy_to_device(copy, options, progress)?;
    drop(device);
    image.close()?;
    Ok(new)
}

/// Returns the options for opening a new image.
fn open_options(new: &UnfinishedImage, options: &ConvertOptions) -> OpenOptions {
    let encryption = options.image.encryption();
    OpenOptions {
        format: Some(options.image.format()),
        files: new.opener(),
        gate: gate(new.path(), &options.image),
        unlock: encryption.map(|encryption| encryption.unlocker(new.path())),
        ..OpenOptions::default()
    }
}
