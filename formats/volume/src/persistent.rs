//! Reading the kernel's `persistent-data` structures, in which thin pools and caches keep their
//! tables.
//!
//! They are trees and arrays of checksummed blocks of 4 KiB. Linux, `drivers/md/persistent-data/`.

mod array;
mod block;
mod btree_node;
mod crc;
pub(crate) mod superblock;
mod tree;

pub(crate) use array::Array;
pub(crate) use block::{BLOCK_BYTES, Blocks};
