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
#![allow(dead_code)]

mod block;
mod bytes;
mod checksum;
mod error;
mod features;
mod htree;
mod journal;
mod superblock;
mod file_blocks;
mod group_descriptor;
mod inode;
mod inode_table;
mod metadata_cache;
mod volume;
