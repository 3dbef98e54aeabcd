//! The kernel's `persistent-data` library, to read: what thin pools and caches keep their tables in.
//!
//! Trees and arrays of checked blocks of 4 KiB. Linux, `drivers/md/persistent-data/`.

mod array;
mod block;
mod btree_node;
mod crc;
pub(crate) mod superblock;
mod tree;

pub(crate) use array::Array;
pub(crate) use block::{BLOCK_BYTES, Blocks};
