//! Userspace exFAT over any block device.
//!
//! `open` of [`Exfat`] reads the boot region and the root directory's special entries, and returns
//! a [`FsRead`](diskfs_vfs::FsRead), which any number of threads can use. `open` of
//! [`WritableExfat`] returns a [`FsWrite`](diskfs_vfs::FsWrite). [`format`](format()) creates a new
//! filesystem, and [`resize`](resize()) changes the size of one.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_exfat::Exfat;
//! use diskfs_vfs::FsRead;
//!
//! let fs = Exfat::open(Arc::new(File::open("card.img")?))?;
//! let pictures = fs.lookup(fs.root(), b"DCIM")?;
//! let names: Vec<_> = fs.read_dir(pictures, 0)?.collect::<Result<_, _>>()?;
//! assert!(names.len() >= 2); // `.` and `..`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! `Corrupt` names the structure with its place. `Io` has the device's error as its source.
//! `Unsupported` is the error for what exFAT cannot store: links, devices, extended attributes.
//!
//! # Limits
//!
//! `DESIGN.md` has all limits: what a crash can damage and what is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod allocation_bitmap;
mod boot_sector;
mod bytes;
mod checksum;
mod directory;
mod directory_entry;
mod entry_set;
mod error;
mod fat;
mod format;
mod resize;
mod root_entries;
mod structures;
mod timestamp;
mod upcase_table;

pub use diskfs_clusters::resize::{ResizeOptions, Resized};
pub use format::{FormatOptions, format};
pub use resize::{minimum_size, resize};
use structures::Structures;

/// An exFAT filesystem, opened for reading.
pub type Exfat = diskfs_clusters::ReadOnly<Structures>;
/// An exFAT filesystem, opened for writing.
pub type WritableExfat = diskfs_clusters::Writable<Structures>;
/// Options for opening an exFAT filesystem for writing.
pub type WriteOptions = diskfs_clusters::WriteOptions<()>;
