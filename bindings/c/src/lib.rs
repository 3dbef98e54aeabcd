//! The library for C: images, volumes, files, inspection and deployment, as functions without
//! Rust's types.
//!
//! `diskfs.h` documents the functions for programs in C; a test generates it from these sources.
//! `DESIGN.md` has the rules of the interface. Every function catches panics and turns them into an
//! error of the kind `internal`.

// In the order that the header has.
mod error;

mod ffi;

mod options;

mod disk;

mod volumes;

mod documents;

mod deploy;

mod metadata;

mod dir;

mod file;

mod changes;

pub use changes::*;
pub use deploy::*;
pub use dir::*;
pub use disk::*;
pub use documents::*;
pub use error::{
    DiskfsError, DiskfsErrorKind, diskfs_error_free, diskfs_error_get_errno, diskfs_error_get_kind,
    diskfs_error_get_kind_name, diskfs_error_get_message,
};
pub use ffi::diskfs_string_free;
pub use file::*;
pub use metadata::{
    DiskfsFileType, DiskfsMetadata, DiskfsTime, diskfs_lstat, diskfs_read_link, diskfs_stat,
};
pub use options::*;
pub use volumes::*;
