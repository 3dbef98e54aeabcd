//! Userspace FAT12, FAT16 and FAT32 over any block device.
//!
//! `open` of [`Fat`] reads the boot sector and returns a [`FsRead`](diskfs_vfs::FsRead), which any
//! number of threads can use. `open` of [`WritableFat`] returns a [`FsWrite`](diskfs_vfs::FsWrite).
//! [`format()`] creates a new filesystem, and [`resize()`] changes the size of one.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_fat::Fat;
//! use diskfs_vfs::FsRead;
//!
//! let fs = Fat::open(Arc::new(File::open("esp.img")?))?;
//! let efi = fs.lookup(fs.root(), b"EFI")?;
//! let names: Vec<_> = fs.read_dir(efi, 0)?.collect::<Result<_, _>>()?;
//! assert!(names.len() >= 2); // `.` and `..`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! `Corrupt` names the structure with its place. `Io` has the device's error as its source.
//! `Unsupported` is the error for what FAT cannot store: links, devices, extended attributes.
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

mod boot_sector;
mod bytes;
mod code_page;
mod directory;
mod directory_entry;
mod error;
mod fat;
mod format;
mod fs_info;
mod long_name;
mod record;
mod resize;
mod short_name;
mod structures;

pub use boot_sector::FatKind;
pub use code_page::CodePage;
pub use diskfs_clusters::resize::{ResizeOptions, Resized};
pub use format::{FormatOptions, format};
pub use resize::{minimum_size, resize};
use structures::Structures;

/// A FAT filesystem, opened for reading.
pub type Fat = diskfs_clusters::ReadOnly<Structures>;
/// A FAT filesystem, opened for writing.
pub type WritableFat = diskfs_clusters::Writable<Structures>;
/// Options for opening a FAT filesystem for writing. `names` is the code page of short names.
pub type WriteOptions = diskfs_clusters::WriteOptions<CodePage>;
