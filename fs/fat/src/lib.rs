//! FAT12, FAT16 and FAT32 in userspace, over any block device.
//!
//! `open` of [`Fat`] reads the boot sector; from then on the filesystem is a
//! [`FsRead`](diskfs_vfs::FsRead), from any number of threads. [`WritableFat`]'s `open` makes it a
//! [`FsWrite`](diskfs_vfs::FsWrite). [`format()`] makes a new one.
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
//! `Unsupported` is what FAT has no room for: links, devices, attributes.
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
mod short_name;
mod structures;

pub use boot_sector::FatKind;
pub use code_page::CodePage;
pub use format::{FormatOptions, format};
use structures::Structures;

/// A FAT filesystem, opened for reading. See the crate.
pub type Fat = diskfs_clusters::ReadOnly<Structures>;
/// A FAT filesystem, opened for writing.
pub type WritableFat = diskfs_clusters::Writable<Structures>;
/// How a FAT filesystem is opened for writing. Short names are in the code page `names`.
pub type WriteOptions = diskfs_clusters::WriteOptions<CodePage>;
