//! dm-cache: the blocks whose current contents are only in the cache.
//!
//! Linux, `drivers/md/dm-cache-metadata.c`.

mod mapping;
mod superblock;

pub(crate) use mapping::dirty;
