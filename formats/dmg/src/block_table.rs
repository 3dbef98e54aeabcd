//! A block table: the chunks of one partition.

use diskfs_block::{Error, Result, bytes};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::chunk::{CHUNK_BYTES, Chunk, RawChunk};

const MAGIC: [u8; 4] = *b"mish";

/// The start of a block table, with the names of other readers.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBlockTable {
    signature: [u8; 4],
    version: U32,
    sector_number: U64,
    sector_count: U64,
    data_offset: U64,
    buffers_needed: U32,
    block_descriptors: U32,
    reserved: [u8; 24],
    checksum: [u8; 136],
    number_of_block_chunks: U32,
}

const _: () = assert!(size_of::<RawBlockTable>() == 204);

/// Adds the chunks of a table to `chunks`. The data of all tables is at `data_at` of the file.
pub(crate) fn read(table: &[u8], data_at: u64, chunks: &mut Vec<Chunk>) -> Result<()> {
    let corrupt = |reason: &'static str| Error::corrupt(reason).at(data_at);
    let parsed = RawBlockTable::read_from_prefix(table).ok();
    let Some((raw, entries)) = parsed.filter(|(raw, _)| raw.signature == MAGIC) else {
        return Err(corrupt("invalid block table of the DMG"));
    };
    let count = bytes::index(raw.number_of_block_chunks.get());
    let entries = entries.chunks_exact(CHUNK_BYTES);
    if entries.len() < count {
        return Err(corrupt("truncated block table of the DMG"));
    }
    let data_at = data_at.saturating_add(raw.data_offset.get());
    for entry in entries.take(count) {
        let Ok(entry) = RawChunk::read_from_bytes(entry) else {
            continue;
        };
        let chunk = entry.chunk(raw.sector_number.get(), data_at)?;
        chunks.extend(chunk.filter(|chunk| chunk.len_bytes > 0));
    }
    Ok(())
}
