//! New images: raw and qcow2.

mod file;
mod layout;
mod qcow2;
mod raw;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use diskfs_block::{Error, Result};

use crate::{Compression, Format, Gate};

use file::NewFile;
pub(crate) use file::directory_of;

/// What kind of image to make, and how.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Its format, with what only that format has.
    pub image: NewImage,
    /// Size of the guest's disk; rounded up to whole sectors of 512 bytes, as QEMU does it. `None`
    /// takes the backing file's.
    pub size_bytes: Option<u64>,
    /// What of it is allocated at once.
    pub preallocation: Preallocation,
    /// What becomes of a file that is there.
    pub existing: Existing,
}

/// The format of a new image.
#[derive(Debug, Clone)]
pub enum NewImage {
    /// The guest's bytes themselves.
    Raw,
    /// QEMU's format.
    Qcow2(Box<NewQcow2>),
}

/// How a new qcow2 image is to be. `..Default::default()` for what does not matter.
#[derive(Debug, Clone)]
pub struct NewQcow2 {
    /// The version: who must be able to read it.
    pub compat: Compat,
    /// Cluster size in bytes: a power of two from 512 to 2 MiB.
    pub cluster_size_bytes: u64,
    /// Width of a reference count: a power of two up to 64.
    pub refcount_bits: u32,
    /// Whether clusters are divided into subclusters.
    pub l2_entries: L2Entries,
    /// When reference counts are written.
    pub refcounts: RefcountUpdates,
    /// How clusters are compressed, if any will be.
    pub compression: Compression,
    /// The image behind it.
    pub backing: Option<NewBacking>,
    /// The file that holds the guest's data in place of the image.
    pub data_file: Option<NewDataFile>,
}

/// The version of a qcow2 image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compat {
    /// Version 2, which QEMU before 1.1 (2012) reads.
    V0_10,
    /// Version 3.
    #[default]
    V1_1,
}

/// The form of a qcow2 image's L2 entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum L2Entries {
    /// A cluster is allocated as a whole.
    #[default]
    Standard,
    /// A cluster has 32 subclusters that are allocated one by one; from 16 KiB clusters on.
    Extended,
}

/// When a qcow2 image's reference counts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RefcountUpdates {
    /// Before what they count.
    #[default]
    Eager,
    /// Late: the image is marked dirty meanwhile, and counted again after a crash.
    Lazy,
}

/// The image behind a new one.
#[derive(Debug, Clone)]
pub struct NewBacking {
    /// Its name as the new image shall spell it: absolute, or from the new image's directory on.
    pub name: PathBuf,
    /// Its format. It is never guessed: a guest that writes another format's header to a raw disk
    /// would choose which files are opened.
    pub format: Format,
    /// Whether it is opened now, through this gate: what is refused now would be refused later.
    pub check: BackingCheck,
}

/// Whether a new image's backing file is opened when the image is made.
#[derive(Debug, Clone)]
pub enum BackingCheck {
    /// It must open through this gate.
    Open(Gate),
    /// It is not looked at; the size must be given.
    Skip,
}

/// The file that holds the data of a new qcow2 image.
#[derive(Debug, Clone)]
pub struct NewDataFile {
    /// Its name as the image shall spell it. It is made, too.
    pub name: PathBuf,
    /// Whether it must be a valid raw image at any time.
    pub layout: DataFileLayout,
}

/// What else the data file of a qcow2 image is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataFileLayout {
    /// Nothing: the image decides what of it counts.
    #[default]
    Private,
    /// It is a raw image of the guest's disk by itself.
    Raw,
}

/// What of a new image is allocated at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preallocation {
    /// Nothing: it grows.
    #[default]
    Off,
    /// The tables of a qcow2 image. Its data is a hole of the host's file.
    Metadata,
    /// The host reserves room for all of it.
    Falloc,
    /// All of it is written.
    Full,
}

/// What becomes of a file that is where a new image goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It stays, and there is no new image.
    #[default]
    Keep,
    /// The new image takes its place, unless somebody uses it.
    Replace,
}

impl NewQcow2 {
    /// The default cluster size of QEMU.
    pub const DEFAULT_CLUSTER_SIZE_BYTES: u64 = 64 << 10;
    /// The default width of a reference count in QEMU.
    pub const DEFAULT_REFCOUNT_BITS: u32 = 16;
}

impl Default for NewQcow2 {
    fn default() -> Self {
        Self {
            compat: Compat::default(),
            cluster_size_bytes: Self::DEFAULT_CLUSTER_SIZE_BYTES,
            refcount_bits: Self::DEFAULT_REFCOUNT_BITS,
            l2_entries: L2Entries::default(),
            refcounts: RefcountUpdates::default(),
            compression: Compression::Zlib,
            backing: None,
            data_file: None,
        }
    }
}

impl CreateOptions {
    /// An image that grows, in place of nothing.
    pub fn new(image: NewImage, size_bytes: Option<u64>) -> Self {
        Self {
            image,
            size_bytes,
            preallocation: Preallocation::default(),
            existing: Existing::default(),
        }
    }
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// Size of the guest's disk.
    pub virtual_size_bytes: u64,
    /// Length of the image's file.
    pub file_size_bytes: u64,
}

/// Makes an image.
///
/// It appears under its name when it is complete and durable, and not before: whatever interrupts
/// this leaves the directory as it was, but for an external data file.
///
/// # Errors
/// [`Exists`](diskfs_block::ErrorKind::Exists); [`Invalid`](diskfs_block::ErrorKind::Invalid) for
/// options that don't go together; [`Denied`](diskfs_block::ErrorKind::Denied) for a backing file
/// that the gate keeps shut; [`Locked`](diskfs_block::ErrorKind::Locked) when the file to be
/// replaced is in use.
pub fn create(path: &Path, options: &CreateOptions) -> Result<Created> {
    create_with_progress(path, options, &mut |_| ControlFlow::Continue(()))
}

/// The same, and tells how many bytes more were written whenever a stretch of them was:
/// preallocation of everything takes its time.
///
/// # Errors
/// As [`create`]; [`Cancelled`](diskfs_block::ErrorKind::Cancelled) when `progress` says so: no file is left.
pub fn create_with_progress(
    path: &Path,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Created> {
    match &options.image {
        NewImage::Raw => raw::create(path, options, progress),
        NewImage::Qcow2(image) => qcow2::create(path, image, options, progress),
    }
    .map_err(|e| e.in_file(path))
}

/// The size in whole sectors; QEMU counts in them.
fn whole_sectors(size_bytes: u64) -> Result<u64> {
    const SECTOR_BYTES: u64 = 512;
    let rounded = size_bytes.checked_next_multiple_of(SECTOR_BYTES);
    // What the host's files and QEMU count in is signed.
    rounded
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or_else(|| Error::invalid(format!("no disk is as large as {size_bytes} bytes")))
}
