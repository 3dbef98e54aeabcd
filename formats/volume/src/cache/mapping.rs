//! Mappings: for each block of the cache, the block of the origin that it caches.

use diskfs_block::{BlockRead, Error, Result};

use super::superblock::Superblock;
use crate::map::{Access, Moved};
use crate::persistent::{Array, Blocks};

/// The flags of a mapping, below the origin's block number: `M_VALID` and `M_DIRTY`.
const VALID: u64 = 1;
const DIRTY: u64 = 2;
const FLAG_BITS: u32 = 16;

/// The largest number of blocks of a cache. LVM makes at most a million by default
/// (`cache_pool_max_chunks`). All mappings are read, at most 128 MiB of them.
const MAX_BLOCKS: u64 = 16 << 20;

/// The largest number of dirty blocks, which take 16 bytes of memory each.
const MAX_DIRTY: usize = 4 << 20;

/// Returns the blocks whose current contents are only in a cache of `cache_bytes`. After a crash
/// these are all of its blocks, as for the kernel.
pub(crate) fn dirty<D: BlockRead + ?Sized>(blocks: &Blocks<D>, cache_bytes: u64) -> Result<Moved> {
    let superblock = Superblock::read(blocks)?;
    let (count, there) = (
        superblock.cache_blocks,
        cache_bytes / superblock.block_bytes,
    );
    if count > there {
        let reason =
            format!("has an invalid cache: {count} blocks, and the volume has space for {there}");
        return Err(Error::corrupt(reason));
    }
    if count > MAX_BLOCKS {
        let reason = format!("has a cache that is too large: {count} blocks, at most {MAX_BLOCKS}");
        return Err(Error::unsupported(reason));
    }
    let mut mappings = Array::new(blocks, superblock.mapping_root);
    let mut bits = superblock.dirty_root.map(|root| Array::new(blocks, root));
    let mut found = Vec::new();
    for block in 0..count {
        let mapping = mappings.get(block)?;
        if mapping & VALID == 0 {
            continue;
        }
        let is_dirty = match &mut bits {
            _ if !superblock.is_clean_shutdown => true,
            // The bit in a 64-bit word.
            Some(bits) => bits.get(block >> 6)? >> (block & 63) & 1 == 1,
            None => mapping & DIRTY != 0,
        };
        if is_dirty {
            found.push((mapping >> FLAG_BITS, block));
        }
        if found.len() > MAX_DIRTY {
            let reason = format!("has too many dirty blocks in its cache: more than {MAX_DIRTY}");
            return Err(Error::unsupported(reason));
        }
    }
    let access = Access::Refused("has a cache; writing to it is not supported");
    Ok(Moved::new(superblock.block_bytes, found, access))
}
