//! Creation of raw and qcow2 images, encrypted or not.

mod encrypted;
mod file;
mod layout;
mod mapped;
mod qcow2;
mod raw;
mod unfinished;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use diskfs_block::{Error, Result};

use crate::{Compression, Format, Gate};

pub use encrypted::NewEncryption;
use file::NewFile;
pub(crate) use file::{check_place, directory_of, sync_directory_of};
pub(crate) use layout::{RefcountClusters, counts_per_block};
pub use mapped::{Allocation, NewVdi, NewVhd, NewVhdx, NewVmdk, VhdSize, VmdkSubformat};
pub(crate) use qcow2::{fully_allocated_bytes, new_header};
pub use unfinished::UnfinishedImage;

/// The options for a new image.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// The format, with the options of that format.
    pub image: NewImage,
    /// The size of the guest's disk in bytes, rounded up to whole sectors of 512 bytes as in QEMU.
    /// `None` for the size of the backing file.
    pub size_bytes: Option<u64>,
    /// The preallocation mode.
    pub preallocation: Preallocation,
    /// The treatment of an existing file.
    pub existing: Existing,
}

/// The format of a new image.
#[derive(Debug, Clone)]
pub enum NewImage {
    /// A raw image: the guest's bytes themselves.
    Raw,
    /// A raw image in a LUKS volume: the file begins with the LUKS header.
    Luks(NewEncryption),
    /// A qcow2 image, QEMU's format.
    Qcow2(Box<NewQcow2>),
    /// A VMDK image, VMware's format. Only [`convert()`](crate::convert()) writes it.
    Vmdk(NewVmdk),
    /// A VHD image, Virtual PC's format. Only [`convert()`](crate::convert()) writes it.
    Vhd(NewVhd),
    /// A VDI image, VirtualBox's format. Only [`convert()`](crate::convert()) writes it.
    Vdi(NewVdi),
    /// A VHDX image, Hyper-V's format. Only [`convert()`](crate::convert()) writes it.
    Vhdx(NewVhdx),
}

impl NewImage {
    /// Returns the format; that of the contents for a LUKS volume.
    pub const fn format(&self) -> Format {
        match self {
            Self::Raw | Self::Luks(_) => Format::Raw,
            Self::Qcow2(_) => Format::Qcow2,
            Self::Vmdk(_) => Format::Vmdk,
            Self::Vhd(_) => Format::Vhd,
            Self::Vdi(_) => Format::Vdi,
            Self::Vhdx(_) => Format::Vhdx,
        }
    }
}

/// The options for a new qcow2 image. Use `..Default::default()` for the rest.
#[derive(Debug, Clone)]
pub struct NewQcow2 {
    /// The version of the format, which determines the programs that can read the image.
    pub compat: Compat,
    /// The cluster size in bytes: a power of two from 512 to 2 MiB.
    pub cluster_size_bytes: u64,
    /// The width of a reference count in bits: a power of two up to 64.
    pub refcount_bits: u32,
    /// The form of L2 entries: with or without subclusters.
    pub l2_entries: L2Entries,
    /// The time at which reference counts are written.
    pub refcounts: RefcountUpdates,
    /// The compression of compressed clusters, if any will be written.
    pub compression: Compression,
    /// The backing file.
    pub backing: Option<NewBacking>,
    /// The external data file, which holds the guest's data in place of the image.
    pub data_file: Option<NewDataFile>,
    /// The encryption of the guest's data. The size, the tables and the names of other files are
    /// not encrypted.
    pub encryption: Option<NewEncryption>,
}

/// The version of a qcow2 image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compat {
    /// Version 2, which QEMU before 1.1 (2012) can read.
    V0_10,
    /// Version 3, QEMU's default.
    #[default]
    V1_1,
}

/// The form of a qcow2 image's L2 entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum L2Entries {
    /// Standard entries: a cluster is allocated as a whole.
    #[default]
    Standard,
    /// Extended entries: a cluster has 32 subclusters that are allocated one by one. Needs clusters
    /// of at least 16 KiB.
    Extended,
}

/// The time at which a qcow2 image's reference counts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RefcountUpdates {
    /// Before the references that they count.
    #[default]
    Eager,
    /// Late: meanwhile the image is marked dirty, and after a crash the references are counted
    /// again.
    Lazy,
}

/// The backing file of a new image.
#[derive(Debug, Clone)]
pub struct NewBacking {
    /// The name as it is stored in the new image: absolute, or relative to the new image's
    /// directory.
    pub name: PathBuf,
    /// The format. It is never probed: a guest that writes another format's header to a raw disk
    /// could choose which files are opened.
    pub format: Format,
    /// The check of the backing file at creation, through a gate: what is refused now would be
    /// refused later, too.
    pub check: BackingCheck,
}

/// The check of a new image's backing file during creation.
#[derive(Debug, Clone)]
pub enum BackingCheck {
    /// The backing file must open through this gate.
    Open(Gate),
    /// The backing file must open through this gate. Its state is not recorded, so both files can be
    /// copied without their modification times: those of a backup.
    OpenUnrecorded(Gate),
    /// The caller has opened the backing file, and gives the size.
    ByCaller,
    /// The caller has opened the backing file on another machine, and gives the size of the disk.
    Remote {
        /// The version that the server names.
        version: Option<String>,
        /// The length of the image in bytes.
        file_size_bytes: u64,
    },
    /// The backing file is not opened and need not exist; the size must be given.
    Skip,
}

/// The external data file of a new qcow2 image.
#[derive(Debug, Clone)]
pub struct NewDataFile {
    /// The name as it is stored in the image. The file is created, too.
    pub name: PathBuf,
    /// The requirement that the data file be a valid raw image at any time.
    pub layout: DataFileLayout,
}

/// The role of a qcow2 image's external data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataFileLayout {
    /// A file that is only valid together with the image.
    #[default]
    Private,
    /// A raw image of the guest's disk that is valid by itself.
    Raw,
}

/// The preallocation mode of a new image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preallocation {
    /// No preallocation: the image grows.
    #[default]
    Off,
    /// Preallocation of a qcow2 image's tables. The data is a hole of the host's file.
    Metadata,
    /// Preallocation by the host, which reserves space for everything.
    Falloc,
    /// Preallocation by writing all of the image.
    Full,
}

/// The treatment of a file that exists at the new image's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Keep the existing file and fail.
    #[default]
    Keep,
    /// Replace the existing file, unless it is in use.
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
            encryption: None,
        }
    }
}

impl CreateOptions {
    /// Returns options for an image without preallocation that replaces no existing file.
    pub fn new(image: NewImage, size_bytes: Option<u64>) -> Self {
        Self {
            image,
            size_bytes,
            preallocation: Preallocation::default(),
            existing: Existing::default(),
        }
    }
}

/// The result of creating an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The size of the guest's disk in bytes.
    pub virtual_size_bytes: u64,
    /// The length of the image's file in bytes.
    pub file_size_bytes: u64,
}

/// Creates an image.
///
/// The image appears under its name only when it is complete and durable. If creation is
/// interrupted, the directory stays as it was, except for an external data file.
///
/// # Errors
/// * [`Exists`](diskfs_block::ErrorKind::Exists) if the file exists.
/// * [`Invalid`](diskfs_block::ErrorKind::Invalid) for options that cannot be combined.
/// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for a format other than raw and qcow2.
/// * [`Denied`](diskfs_block::ErrorKind::Denied) for a backing file that the gate refuses.
/// * [`Locked`](diskfs_block::ErrorKind::Locked) if the file to be replaced is in use.
pub fn create(path: &Path, options: &CreateOptions) -> Result<Created> {
    create_with_progress(path, options, &mut |_| ControlFlow::Continue(()))
}

/// Creates an image like [`create`], and calls `progress` with the number of bytes written since
/// the last call, because full preallocation takes long.
///
/// # Errors
/// As for [`create`]; [`Cancelled`](diskfs_block::ErrorKind::Cancelled) if `progress` breaks: no
/// file is left.
pub fn create_with_progress(
    path: &Path,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Created> {
    let mut create = || {
        let (file, created) = write(path, options, progress)?;
        file.finish()?;
        Ok(created)
    };
    create().map_err(|e: Error| e.in_file(path))
}

/// Writes an image that does not have its name yet.
fn write(
    path: &Path,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(NewFile, Created)> {
    match &options.image {
        NewImage::Raw => raw::write(path, options, progress),
        NewImage::Luks(encryption) => encrypted::write(path, encryption, options, progress),
        NewImage::Qcow2(image) => qcow2::write(path, image, options, progress),
        other => {
            let format = other.format();
            let reason = format!("creating empty images of format {format} is not supported");
            Err(Error::unsupported(reason).with_hint(
                "`diskfs create` makes one, and `diskfs convert` copies a disk into one",
            ))
        }
    }
}

/// Rounds the size up to whole sectors, as QEMU does.
pub(crate) fn whole_sectors(size_bytes: u64) -> Result<u64> {
    const SECTOR_BYTES: u64 = 512;
    let rounded = size_bytes.checked_next_multiple_of(SECTOR_BYTES);
    // The size must fit a signed number, as the host and QEMU use for sizes.
    rounded
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or_else(|| {
            Error::invalid(format!(
                "the disk is too large: {size_bytes} bytes, at most 2^63 - 1"
            ))
        })
}
