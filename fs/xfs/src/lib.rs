//! A read-only XFS driver in userspace, over any block device.
//!
//! [`Xfs::open`] reads the superblock, and replays the log into memory if necessary. The result is
//! a [`FsRead`](diskfs_vfs::FsRead) that any number of threads can use. Each structure is read and
//! checked when it is used. No byte of the device is changed.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_vfs::FsRead;
//! use diskfs_xfs::Xfs;
//!
//! let fs = Xfs::open(Arc::new(File::open("root.img")?))?;
//! let hostname = diskfs_vfs::resolve(&fs, "etc/hostname", diskfs_vfs::Follow::All)?;
//! let mut name = [0; 64];
//! let len = fs.read_at(hostname, 0, &mut name)?;
//! assert!(len <= 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! `Corrupt` names the structure and its byte on the device. `Unsupported` names the features that
//! the driver lacks. `Io` has the device's error as its source.
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

mod ag;
mod attribute;
mod bmap;
mod bytes;
mod checksum;
mod clean_log;
mod contents;
mod directory;
mod error;
mod extent;
mod features;
mod free_ranges;
mod identity;
mod inode;
mod inode_table;
mod log;
mod metadata_cache;
mod statistics;
mod superblock;
mod symlink;
mod volume;
mod xfs;

pub use xfs::Xfs;
