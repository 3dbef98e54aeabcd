//! A `disk_exception`: a chunk that is in the store. Exceptions are stored in areas of one chunk,
//! each before the chunks that it describes.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::map::Area;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    old_chunk: U64,
    new_chunk: U64,
}

/// The largest number of exceptions, all of which are kept in 16 bytes each: 64 MiB of them, for 16
/// GiB overwritten in chunks of 4 KiB. The kernel keeps them all, too.
const MAX_EXCEPTIONS: usize = 4 << 20;

/// Reads the chunks of the origin and the chunks of the store that replace them.
pub(super) fn read_all<D: BlockRead + ?Sized>(
    store: &Area<D>,
    chunk_bytes: NonZeroU64,
) -> Result<Vec<(u64, u64)>> {
    let chunks = store.len_bytes() / chunk_bytes;
    let in_area = chunk_bytes.get() >> size_of::<Raw>().trailing_zeros();
    let mut bytes = vec![0; usize::try_from(chunk_bytes.get()).unwrap_or(0)];
    let mut found = Vec::new();
    // Chunk 0 holds the header.
    let mut area = 1_u64;
    while area < chunks {
        store.read_at(area.saturating_mul(chunk_bytes.get()), &mut bytes)?;
        for raw in bytes.chunks_exact(size_of::<Raw>()) {
            let raw = Raw::ref_from_bytes(raw);
            let raw = raw.map_err(|_| Error::corrupt("has a store with a truncated exception"))?;
            let (old, new) = (raw.old_chunk.get(), raw.new_chunk.get());
            if new == 0 {
                return Ok(found);
            }
            if new >= chunks {
                let reason = format!(
                    "has an invalid exception: chunk {old} is in chunk {new} of a store of \
                     {chunks} chunks"
                );
                return Err(Error::corrupt(reason));
            }
            if found.len() >= MAX_EXCEPTIONS {
                let reason =
                    format!("has too many chunks in its store: more than {MAX_EXCEPTIONS}");
                return Err(Error::unsupported(reason));
            }
            found.push((old, new));
        }
        area = area.saturating_add(in_area).saturating_add(1);
    }
    Ok(found)
}
