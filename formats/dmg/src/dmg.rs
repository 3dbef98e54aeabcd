//! An open image.

use std::collections::HashMap;
use std::sync::Arc;

use diskfs_block::{
    BlockRead, CompressedUnit, Error, ImageMap, MappedRun, Result, RunStorage, bytes, read_within,
};

use crate::block_table;
use crate::chunk::{Chunk, ChunkData, SECTOR_BYTES};
use crate::codec::Codec;
use crate::property_list;
use crate::trailer::Trailer;

/// An Apple disk image.
#[derive(Debug)]
pub struct Dmg {
    file: Arc<dyn BlockRead>,
    /// The chunks by their offset in the disk. They do not overlap.
    chunks: Vec<Chunk>,
    /// The compression of the data at each offset in the file.
    codecs: HashMap<u64, Codec>,
    size_bytes: u64,
}

impl Dmg {
    /// Opens the image in `file`.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` with the byte of the field; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>) -> Result<Self> {
        let trailer = Trailer::read(file.as_ref())?;
        let len = bytes::index(trailer.list_bytes);
        let list = read_within(file.as_ref(), trailer.list_at, len)?;
        let Some(list) = list else {
            let reason = "property list of the DMG is past the end of the file";
            return Err(Error::corrupt(reason).at(trailer.list_at));
        };
        let tables = property_list::block_tables(&list).map_err(|e| e.at(trailer.list_at))?;
        let mut chunks = Vec::new();
        for table in tables {
            block_table::read(&table, trailer.data_at, &mut chunks)?;
        }
        chunks.sort_by_key(|chunk| chunk.at);
        check_order(&chunks, trailer.list_at)?;
        let end = chunks
            .last()
            .map_or(0, |last| last.at.saturating_add(last.len_bytes));
        Ok(Self {
            codecs: codecs(&chunks)?,
            file,
            chunks,
            size_bytes: end.max(trailer.sectors.saturating_mul(SECTOR_BYTES)),
        })
    }

    /// Returns the chunk that contains `offset`, or the start of the next one.
    fn chunk_at(&self, offset: u64) -> std::result::Result<&Chunk, u64> {
        let after = self.chunks.partition_point(|chunk| chunk.at <= offset);
        let before = after.checked_sub(1).and_then(|n| self.chunks.get(n));
        let contains = |chunk: &&Chunk| offset.saturating_sub(chunk.at) < chunk.len_bytes;
        let next = self.chunks.get(after).map_or(u64::MAX, |chunk| chunk.at);
        before.filter(contains).ok_or(next)
    }
}

fn check_order(chunks: &[Chunk], place: u64) -> Result<()> {
    let overlap = chunks
        .iter()
        .zip(chunks.iter().skip(1))
        .find(|(chunk, next)| chunk.at.saturating_add(chunk.len_bytes) > next.at);
    match overlap {
        None => Ok(()),
        Some((_, next)) => {
            let reason = format!(
                "chunks of the DMG overlap at byte {:#x} of the disk",
                next.at
            );
            Err(Error::corrupt(reason).at(place))
        }
    }
}

fn codecs(chunks: &[Chunk]) -> Result<HashMap<u64, Codec>> {
    let mut codecs = HashMap::new();
    for chunk in chunks {
        if let ChunkData::Packed { codec, at, .. } = chunk.data
            && codecs.insert(at, codec).is_some_and(|other| other != codec)
        {
            return Err(Error::corrupt("chunk has two compressions").at(at));
        }
    }
    Ok(codecs)
}

impl ImageMap for Dmg {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let chunk = match self.chunk_at(offset) {
            Ok(chunk) => chunk,
            Err(next) => {
                return Ok(MappedRun {
                    len_bytes: next.saturating_sub(offset).min(max_len),
                    storage: RunStorage::Absent,
                });
            }
        };
        let storage = match chunk.data {
            ChunkData::Zero => RunStorage::Zero,
            ChunkData::Raw(offset) => RunStorage::Stored { file: 0, offset },
            ChunkData::Packed {
                at, stored_bytes, ..
            } => RunStorage::Compressed {
                unit: CompressedUnit {
                    file: 0,
                    offset: at,
                    stored_bytes,
                    unpacked_bytes: chunk.len_bytes,
                },
                skip_bytes: 0,
            },
        };
        let within = offset.saturating_sub(chunk.at);
        Ok(MappedRun {
            len_bytes: chunk.len_bytes.saturating_sub(within).min(max_len),
            storage: storage.skip(within),
        })
    }

    fn decompress(&self, unit: CompressedUnit) -> Result<Arc<[u8]>> {
        let len = bytes::index(unit.stored_bytes);
        let stored = read_within(self.file.as_ref(), unit.offset, len)?;
        let Some((stored, codec)) = stored.zip(self.codecs.get(&unit.offset)) else {
            let reason = "chunk is past the end of the file; the file may be truncated";
            return Err(Error::corrupt(reason).at(unit.offset));
        };
        codec
            .decompress(&stored, bytes::index(unit.unpacked_bytes))
            .map_err(|e| e.at(unit.offset))
    }
}
