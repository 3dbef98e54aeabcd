//! exFAT in userspace, over any block device.
//!
//! `open` of [`Exfat`] reads the boot region and the root directory's own entries; from then on the
//! filesystem is a [`FsRead`](diskfs_vfs::FsRead), from any number of threads. `open` of [`WritableExfat`]
//! makes it a [`FsWrite`](diskfs_vfs::FsWrite). [`format`](format()) makes a new one.
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
//! `Unsupported` is what exFAT has no room for: links, devices, attributes.
//!
//! # Limits
//!
//! What a crash leaves, what is refused and every other limit stands in `DESIGN.md`.
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
mod root_entries;
mod structures;
mod timestamp;
mod upcase_table;

pub use format::{FormatOptions, format};
use structures::Structures;

/// An exFAT filesystem, opened for reading. See the crate.
pub type Exfat = diskfs_clusters::ReadOnly<Structures>;
/// An exFAT filesystem, opened for writing.
pub type WritableExfat = diskfs_clusters::Writable<Structures>;
/// How an exFAT filesystem is opened for writing.
pub type WriteOptions = diskfs_clusters::WriteOptions<()>;
