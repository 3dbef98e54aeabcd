//! The metadata of files.
#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, and the strings are raw pointers"
)]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;

use diskfs::vfs::{FileType, Metadata, Timestamp};

use crate::disk::{DiskfsDisk, Place, place};
use crate::error::{DiskfsError, guard};
use crate::ffi::{put, string};

/// The type of a file.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskfsFileType {
    /// A regular file.
    Regular = 0,
    /// A directory.
    Directory = 1,
    /// A symbolic link.
    Symlink = 2,
    /// A character device.
    CharacterDevice = 3,
    /// A block device.
    BlockDevice = 4,
    /// A FIFO (named pipe).
    Fifo = 5,
    /// A Unix socket.
    Socket = 6,
}

/// A point in time.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DiskfsTime {
    /// Whole seconds since 1970, which can be negative.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanoseconds: u32,
}

/// The metadata of a file, as stat(2) returns it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DiskfsMetadata {
    /// The inode number.
    pub inode: u64,
    /// The size in bytes; for a symlink the length of its target.
    pub size_bytes: u64,
    /// The number of allocated bytes.
    pub allocated_bytes: u64,
    /// The type of the file.
    pub file_type: DiskfsFileType,
    /// The type and the permissions, as `st_mode`.
    pub mode: u32,
    /// The number of hard links.
    pub links: u32,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The major number of a device node, else 0.
    pub device_major: u32,
    /// The minor number of a device node, else 0.
    pub device_minor: u32,
    /// The time of the last access.
    pub accessed: DiskfsTime,
    /// The time of the last change of the contents.
    pub modified: DiskfsTime,
    /// The time of the last change of the inode.
    pub changed: DiskfsTime,
}

impl From<FileType> for DiskfsFileType {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Regular => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
        }
    }
}

impl From<Timestamp> for DiskfsTime {
    fn from(time: Timestamp) -> Self {
        Self {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        }
    }
}

impl From<Metadata> for DiskfsMetadata {
    fn from(metadata: Metadata) -> Self {
        let device = metadata.device.unwrap_or_default();
        Self {
            inode: metadata.inode.0,
            size_bytes: metadata.size_bytes,
            allocated_bytes: metadata.allocated_bytes,
            file_type: metadata.file_type.into(),
            mode: metadata.mode(),
            links: metadata.links,
            uid: metadata.uid,
            gid: metadata.gid,
            device_major: device.major,
            device_minor: device.minor,
            accessed: metadata.accessed.into(),
            modified: metadata.modified.into(),
            changed: metadata.changed.into(),
        }
    }
}

/// Stores the metadata of a file, following symlinks.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_stat(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    metadata: Option<&mut MaybeUninit<DiskfsMetadata>>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        // SAFETY: the caller promises it.
        let Place { tree, path } = unsafe { place(disk, volume, path) }?;
        put(metadata, tree.reader().metadata(path)?.into());
        Ok(true)
    })
}

/// Stores the metadata of a file; of a symlink itself, not of its target.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_lstat(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    metadata: Option<&mut MaybeUninit<DiskfsMetadata>>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        // SAFETY: the caller promises it.
        let Place { tree, path } = unsafe { place(disk, volume, path) }?;
        put(metadata, tree.reader().symlink_metadata(path)?.into());
        Ok(true)
    })
}

/// Returns the target of a symlink. Free it with `diskfs_string_free()`.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_read_link(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> *mut c_char {
    guard(error, ptr::null_mut(), || {
        // SAFETY: the caller promises it.
        let Place { tree, path } = unsafe { place(disk, volume, path) }?;
        Ok(string(tree.reader().read_link(path)?).into_raw())
    })
}
