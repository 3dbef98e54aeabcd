//! ext2, ext3 and ext4 in userspace, over any block device.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod block;
mod bytes;
mod checksum;
mod contents;
mod directory;
mod error;
mod ext4;
mod features;
mod file_blocks;
mod group_descriptor;
mod htree;
mod identity;
mod inline_data;
mod inode;
mod inode_table;
mod journal;
mod metadata_cache;
mod no_key_name;
mod recovery;
mod statistics;
mod superblock;
mod symlink;
mod volume;
mod xattr;

pub use ext4::{Ext4, Options};
