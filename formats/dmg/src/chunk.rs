//! A chunk: an entry of a block table.

use diskfs_block::{Error, Result};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::codec::Codec;

pub(crate) const SECTOR_BYTES: u64 = 512;
/// The largest chunk of compressed data, packed or not: QEMU's limit. Images have 256 KiB to 1 MiB.
const CHUNK_MAX_BYTES: u64 = 64 << 20;

/// An entry of a block table.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawChunk {
    entry_type: U32,
    comment: U32,
    sector_number: U64,
    sector_count: U64,
    compressed_offset: U64,
    compressed_length: U64,
}

pub(crate) const CHUNK_BYTES: usize = size_of::<RawChunk>();
const _: () = assert!(CHUNK_BYTES == 40);

/// A run of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The offset in the disk in bytes.
    pub(crate) at: u64,
    pub(crate) len_bytes: u64,
    pub(crate) data: ChunkData,
}

/// The data of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkData {
    /// Zeroes.
    Zero,
    /// Uncompressed data at this offset in the file.
    Raw(u64),
    /// Compressed data.
    Packed {
        codec: Codec,
        /// The offset in the file.
        at: u64,
        stored_bytes: u64,
    },
}

impl RawChunk {
    /// Validates a chunk of a table that begins at `first_sector` of the disk, and whose data is at
    /// `data_at` of the file. Returns `None` for a comment and the end of a table.
    pub(crate) fn chunk(&self, first_sector: u64, data_at: u64) -> Result<Option<Chunk>> {
        let sectors = self.sector_count.get();
        let at = first_sector
            .checked_add(self.sector_number.get())
            .and_then(|sector| sector.checked_mul(SECTOR_BYTES));
        let len_bytes = sectors.checked_mul(SECTOR_BYTES);
        let range = at
            .zip(len_bytes)
            .filter(|(at, len)| at.checked_add(*len).is_some());
        let stored_at = data_at.saturating_add(self.compressed_offset.get());
        let stored_bytes = self.compressed_length.get();
        let data = match self.entry_type.get() {
            0x7fff_fffe | 0xffff_ffff => return Ok(None),
            0 | 2 => ChunkData::Zero,
            1 => ChunkData::Raw(stored_at),
            kind => ChunkData::Packed {
                codec: Codec::of(kind).map_err(|e| e.at(stored_at))?,
                at: stored_at,
                stored_bytes,
            },
        };
        let Some((at, len_bytes)) = range else {
            let reason = format!("chunk of {sectors} sectors is past every end");
            return Err(Error::corrupt(reason).at(stored_at));
        };
        let is_packed = matches!(data, ChunkData::Packed { .. });
        if is_packed && len_bytes.max(stored_bytes) > CHUNK_MAX_BYTES {
            let reason =
                format!("compressed chunk of {len_bytes} bytes, at most {CHUNK_MAX_BYTES}");
            return Err(Error::unsupported(reason).at(stored_at));
        }
        // A raw chunk that is shorter than its sectors would read its neighbour's data.
        if matches!(data, ChunkData::Raw(_)) && stored_bytes < len_bytes {
            let reason = format!("chunk of {len_bytes} bytes has only {stored_bytes}");
            return Err(Error::corrupt(reason).at(stored_at));
        }
        Ok(Some(Chunk {
            at,
            len_bytes,
            data,
        }))
    }
}
