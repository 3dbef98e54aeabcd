//! Userspace ISO 9660 with Rock Ridge and Joliet, over any block device.
//!
//! [`Iso9660::open`] reads the volume descriptors and chooses the names to show: those of Rock
//! Ridge, otherwise those of Joliet, otherwise the plain ones, as Linux does. The result is a
//! [`FsRead`](diskfs_vfs::FsRead), which any number of threads can use. Directory records are read
//! and checked when they are used.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_iso9660::Iso9660;
//! use diskfs_vfs::FsRead;
//!
//! let fs = Iso9660::open(Arc::new(File::open("install.iso")?))?;
//! let kernel = diskfs_vfs::resolve(&fs, "install/vmlinuz", diskfs_vfs::Follow::All)?;
//! let mut start = [0; 512];
//! assert_eq!(fs.read_at(kernel, 0, &mut start)?, 512);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`NewVolume`] makes small volumes, such as the seeds of cloud-init.
//!
//! # Errors
//!
//! `Corrupt` names the structure and its byte on the device. `Unsupported` is the error for reading
//! interleaved files, zisofs and sparse files of Rock Ridge. `Io` has the device's error as its
//! source.
//!
//! # Limits
//!
//! `DESIGN.md` has all limits: what is read and what is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod boot_catalog;
mod boot_record;
mod contents;
mod date_time;
mod directory;
mod directory_record;
mod error;
mod iso9660;
mod metadata;
mod name;
mod node;
mod numbers;
mod rrip;
mod susp;
mod volume;
mod volume_descriptor;
mod write;

pub use iso9660::Iso9660;
pub use write::{NewFile, NewVolume};
