//! Userspace EROFS, over any block device.
//!
//! [`Erofs::open`] reads the superblock. The result is a [`FsRead`](diskfs_vfs::FsRead), which any
//! number of threads can use. Inodes, directories and file contents are read, decompressed and
//! checked when they are used.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_erofs::Erofs;
//! use diskfs_vfs::FsRead;
//!
//! let fs = Erofs::open(Arc::new(File::open("system.erofs")?))?;
//! let inode = diskfs_vfs::resolve(&fs, "etc/os-release", diskfs_vfs::Follow::All)?;
//! let mut text = [0; 4096];
//! let len = fs.read_at(inode, 0, &mut text)?;
//! println!("{}", String::from_utf8_lossy(&text[..len]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! `Corrupt` names the structure and its byte on the device. `Unsupported` is the error for unknown
//! features, layouts and algorithms, and for a filesystem on several devices that are not given.
//! `Io` has the device's error as its source.
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

mod chunk;
mod cluster;
mod cluster_index;
mod compact_index;
mod contents;
mod decompress;
mod device_slot;
mod directory;
mod directory_block;
mod encoded;
mod encoded_extent;
mod erofs;
mod error;
mod extent;
mod extents;
mod features;
mod flat;
mod inode;
mod layout;
mod lz4;
mod map;
mod map_header;
mod map_tail;
mod mapped;
mod metabox;
mod metadata;
mod place;
mod raw_inode;
mod superblock;
mod symlink;
mod volume;
mod xattr;
mod xattr_name;
mod xattr_prefix;

pub use erofs::Erofs;
