//! An ext2, ext3 and ext4 driver in userspace, over any block device.
//!
//! [`Ext4::open`] reads the superblock, and replays the journal into memory if necessary. The
//! result is a [`FsRead`](diskfs_vfs::FsRead) that any number of threads can use. Each structure is
//! read and checked when it is used. No byte of the device is changed. [`WritableExt4`] opens a
//! filesystem for writing. [`resize`](resize()) makes one larger that is not open.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_ext4::{Ext4, Options};
//! use diskfs_vfs::FsRead;
//!
//! let fs = Ext4::open(Arc::new(File::open("root.img")?), &Options::default())?;
//! let etc = fs.lookup(fs.root(), b"etc")?;
//! let hostname = fs.lookup(etc, b"hostname")?;
//! let mut name = [0; 64];
//! let len = fs.read_at(hostname, 0, &mut name)?;
//! assert!(len <= 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! `Corrupt` names the structure with its inode or block, and the actual and expected values.
//! `Unsupported` names the unsupported features. `Io` has the device's error as its source.
//!
//! # Limits
//!
//! Memory is bounded by [`Options::cache_bytes`] and a few blocks for each call. `DESIGN.md` lists
//! what is supported, what is refused, and all other limits.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod allocator;
mod ambient;
mod block;
mod bytes;
mod check;
mod checksum;
mod contents;
mod delayed;
mod device_writer;
mod directory;
mod error;
mod ext4;
mod features;
mod file_blocks;
mod format;
mod group_descriptor;
mod handle;
mod hashing;
mod htree;
mod identity;
mod inline_data;
mod inode;
mod inode_table;
mod journal;
mod locks;
mod metadata_cache;
mod no_key_name;
mod options;
mod pool;
mod posix_acl;
mod recovery;
mod resize;
mod run;
mod shared_attributes;
mod shrink;
mod statistics;
mod superblock;
mod symlink;
mod transaction;
mod volume;
mod writable;
mod writer;
mod xattr;

pub use check::{
    CheckOptions, CheckPhase, CheckProgress, CheckReport, CheckStatistics, Finding, FindingKind,
    FindingPlace, check,
};
pub use ext4::{Ext4, Options};
pub use format::{
    BlockCount, ExtendedOptions, FeatureChanges, FormatKind, FormatOptions, JournalOptions,
    TreeUsage, UsageType, fitting_size, format,
};
pub use options::{RootReserve, TransactionGrouping, WriteOptions};
pub use resize::{NewSpace, ResizeOptions, Resized, resize};
pub use shrink::{ShrinkOptions, minimum_size, shrink};
pub use writable::WritableExt4;
pub use writer::{UuidChange, uuid_change};
