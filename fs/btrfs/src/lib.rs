//! Userspace btrfs, read-only, over any block devices.
//!
//! [`Btrfs::open`] reads the superblocks of one or several devices, their chunks, and the root of
//! the chosen subvolume. The result is a [`FsRead`](diskfs_vfs::FsRead), which any number of
//! threads can use. Other subvolumes and snapshots are directories at their place in the tree.
//! Metadata and data are compared with their checksums, and read from another copy if they differ.
//! What was synced before a crash is replayed from the log, in memory.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_btrfs::{Btrfs, Options};
//! use diskfs_vfs::FsRead;
//!
//! let fs = Btrfs::open(vec![Arc::new(File::open("root.img")?)], &Options::default())?;
//! let hostname = diskfs_vfs::resolve(&fs, "etc/hostname", diskfs_vfs::Follow::All)?;
//! let mut name = [0; 64];
//! let len = fs.read_at(hostname, 0, &mut name)?;
//! # let _ = len;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`device_info`] says which filesystem a device belongs to, so that its devices can be found;
//! [`missing_devices`] names those that were not.
//!
//! # Errors
//!
//! `Corrupt` names the structure, and its byte on the device or its logical address. `Unsupported`
//! names the feature: `DESIGN.md` has all of them. `Io` has the device's error as its source, or
//! names the missing device.
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

mod btrfs;
mod bytes;
mod changes;
mod checksum;
mod chunk;
mod chunk_map;
mod compression;
mod contents;
mod cursor;
mod data;
mod data_checksums;
mod dev_item;
mod device_set;
mod dir_item;
mod directory;
mod error;
mod features;
mod file_extent_item;
mod file_extents;
mod inode;
mod inode_item;
mod inode_ref;
mod key;
mod log_tree;
mod logical;
mod member;
mod missing;
mod options;
mod parity;
mod placement;
mod read_ahead;
mod root_item;
mod root_ref;
mod statistics;
mod storage;
mod subvolume_list;
mod subvolumes;
mod superblock;
mod timestamp;
mod tree_block;
mod tree_blocks;
mod tree_root;
mod volume;
mod xattr;

pub use btrfs::Btrfs;
pub use member::{DeviceInfo, device_info};
pub use missing::{MissingDevice, missing_devices};
pub use options::{Options, RootSubvolume};
pub use subvolume_list::SubvolumeInfo;
