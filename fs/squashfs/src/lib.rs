//! Userspace squashfs 4.0, over any block device.
//!
//! [`Squashfs::open`] reads the superblock. The result is a [`FsRead`](diskfs_vfs::FsRead), which
//! any number of threads can use. Inodes, directories and file contents are decompressed and
//! checked when they are used.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::File;
//! use diskfs_squashfs::Squashfs;
//! use diskfs_vfs::FsRead;
//!
//! let fs = Squashfs::open(Arc::new(File::open("core22.snap")?))?;
//! let inode = diskfs_vfs::resolve(&fs, "usr/lib/os-release", diskfs_vfs::Follow::All)?;
//! let mut text = [0; 4096];
//! let len = fs.read_at(inode, 0, &mut text)?;
//! println!("{}", String::from_utf8_lossy(&text[..len]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! `Corrupt` names the structure and its byte on the device. `Unsupported` is the error for other
//! versions than 4.0, unknown compressors, and files of more than 2^27 blocks. `Io` has the
//! device's error as its source.
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

mod block_list;
mod compressor;
mod compressor_options;
mod contents;
mod data_block;
mod decompress;
mod directory;
mod directory_entry;
mod directory_index;
mod error;
mod extents;
mod fragment;
mod inode;
mod inode_body;
mod inode_reference;
mod lookup_table;
mod metadata;
mod metadata_block;
mod parents;
mod raw_inode;
mod segment;
mod squashfs;
mod superblock;
mod volume;
mod xattr;
mod xattr_id;

pub use squashfs::Squashfs;
