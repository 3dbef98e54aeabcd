//! Mappings: for each block of the cache, which one of the origin it has.

use diskfs_block::{BlockRead, Error, Result};

use super::superblock::Superblock;
use crate::map::{Access, Moved};
use crate::persistent::{Array, Blocks};

/// `M_VALID` and `M_DIRTY`: flags of a mapping, below the origin's block.
const VALID: u64 = 1;
const DIRTY: u64 = 2;
const FLAG_BITS: u32 = 16;

/// Blocks of a cache; LVM makes a million at most unless told otherwise (`cache_pool_max_chunks`).
/// Their mappings are read, 128 MiB of them at most.
const MAX_BLOCKS: u64 = 16 << 20;

/// Dirty blocks that are kept, in 16 bytes each.
const MAX_DIRTY: usize = 4 << 20;

/// The blocks that only a cache of `cache_bytes` has as they should be. After a crash these are all of
/// its blocks, as for the kernel.
pub(crate) fn dirty<D: BlockRead + ?Sized>(blocks: &Blocks<D>, cache_bytes: u64) -> Result<Moved> {
    let superblock = Superblock::read(blocks)?;
    let (count, there) = (
        superblock.cache_blocks,
        cache_bytes / superblock.block_bytes,
    );
    if count > there {
        let reason = format!("has a cache of {count} blocks in the room of {there}");
        return Err(Error::corrupt(reason));
    }
    if count > MAX_BLOCKS {
        let reason = format!("has a cache of {count} blocks, more than {MAX_BLOCKS}");
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
            // Bits of a word of 64.
            Some(bits) => bits.get(block >> 6)? >> (block & 63) & 1 == 1,
            None => mapping & DIRTY != 0,
        };
        if is_dirty {
            found.push((mapping >> FLAG_BITS, block));
        }
        if found.len() > MAX_DIRTY {
            let reason = format!("has more than {MAX_DIRTY} dirty blocks in its cache");
            return Err(Error::unsupported(reason));
        }
    }
    let access = Access::Refused("has a cache, and is not written");
    Ok(Moved::new(superblock.block_bytes, found, access))
}
