//! Filesystems in userspace: the traits that every driver implements, and the generic code for
//! paths, walks and copies.
//!
//! A driver works with inode numbers, as FUSE does ([`FsRead`], and [`FsWrite`] if it supports
//! writing); names are bytes. Walking, joining and resolving paths is generic code in this crate,
//! so that symlink limits, loops and escapes are handled in one place for all drivers.
//!
//! # Errors
//!
//! The layer has one [`Error`]: a small stable [`ErrorKind`] (from which errno and exit codes
//! follow), the inode and path, and the driver's private error as its source.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod copy_in;
pub mod copy_out;
pub mod edit;
pub mod elf;
mod error;
mod free_ranges;
mod fs;
mod fs_write;
pub mod glob;
mod holds;
mod join;
mod metadata;
mod mount_tree;
mod numbers;
pub mod parallel;
pub mod path;
mod read_ahead;
mod read_file;
mod recorder;
#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "only tests use it, and a panic is how a test fails"
)]
pub mod testing;
mod walk;
mod write_file;

pub use copy_in::{copy_in, copy_within};
pub use copy_out::copy_out;
pub use error::{Error, ErrorKind, Result, check_cancelled};
pub use free_ranges::{FreeRanges, join_ranges};
pub use fs::{
    DirEntries, DirEntry, FileExtent, FileExtentKind, FileExtents, FsRead, Identity, Statistics,
};
pub use fs_write::{
    Fallocate, FsWrite, NewAttributes, NewKind, Remains, RenameMode, SetMetadata, SetTime,
    SetXattr, SyncFile,
};
pub use holds::Holds;
pub use metadata::{Device, FileAttributes, FileFlags, FileType, InodeNumber, Metadata, Timestamp};
pub use mount_tree::{Driver, MountHandle, MountPointFs, MountTree};
pub use path::{Follow, follow_last, resolve, resolve_beneath, resolve_parent};
pub use read_ahead::ReadAhead;
pub use read_file::{FileReader, read_file};
pub use recorder::{Change, ChangeKind, Recorder};
pub use walk::{WALK_PATH_MAX_BYTES, Walk, WalkEntry, entry_metadata, walk};
pub use write_file::{FileWriter, replace_contents, shorten};
