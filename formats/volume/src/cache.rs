//! Caches of dm-cache: which blocks only the cache has as they should be.
//!
//! Linux, `drivers/md/dm-cache-metadata.c`.

mod mapping;
mod superblock;

pub(crate) use mapping::dirty;
