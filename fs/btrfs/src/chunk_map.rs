//! The chunks of a filesystem, by logical address.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::error::{Result, corrupt_at, unsupported};
use crate::key::{KEY_BYTES, Key, item};
use crate::logical::Logical;

/// The largest number of chunks: 256 TiB in chunks of 1 GiB. Linux makes them of up to 10 GiB.
const MAX_CHUNKS: usize = 1 << 18;

/// Chunks in ascending order that do not overlap.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunkMap {
    chunks: Vec<Arc<Chunk>>,
}

impl ChunkMap {
    /// Parses the superblock's array of chunks, which contain the chunk tree.
    pub(crate) fn of_array(mut array: &[u8]) -> Result<Self> {
        let mut map = Self::default();
        while !array.is_empty() {
            let key = Key::parse(array, 0).filter(|key| key.item_type == item::CHUNK_ITEM);
            let Some(key) = key else {
                let reason = "invalid superblock of btrfs: system chunk without a key";
                return Err(crate::error::corrupt(
                    reason,
                    crate::superblock::SUPERBLOCK_AT,
                ));
            };
            let start = Logical(key.offset);
            let bytes = array.get(KEY_BYTES..).unwrap_or_default();
            let (chunk, rest) = Chunk::parse(bytes, start).map_err(|e| invalid(start, &e))?;
            map.insert(chunk)?;
            array = rest;
        }
        Ok(map)
    }

    /// Adds a chunk.
    ///
    /// # Errors
    /// `Corrupt` if it overlaps another one, or if there are too many.
    pub(crate) fn insert(&mut self, chunk: Chunk) -> Result<()> {
        let start = chunk.start;
        if self.chunks.len() >= MAX_CHUNKS {
            return Err(unsupported(
                "more than 262144 chunks of btrfs are not supported",
            ));
        }
        let nth = self.chunks.partition_point(|other| other.start < start);
        let before = nth.checked_sub(1).and_then(|nth| self.chunks.get(nth));
        let overlaps = before.is_some_and(|before| before.range().end > start)
            || self
                .chunks
                .get(nth)
                .is_some_and(|after| after.start < chunk.range().end);
        if overlaps {
            return Err(invalid(start, "it overlaps another chunk"));
        }
        self.chunks.insert(nth, Arc::new(chunk));
        Ok(())
    }

    /// Returns the chunk that contains a range of addresses.
    pub(crate) fn find(&self, start: Logical, len_bytes: u64) -> Result<&Arc<Chunk>> {
        let nth = self.chunks.partition_point(|chunk| chunk.start <= start);
        let chunk = nth.checked_sub(1).and_then(|nth| self.chunks.get(nth));
        let end = start.0.checked_add(len_bytes);
        let contains = |chunk: &&Arc<Chunk>| end.is_some_and(|end| end <= chunk.range().end.0);
        chunk.filter(contains).ok_or_else(|| {
            let reason = format!("invalid address of btrfs: no chunk contains {len_bytes} bytes");
            corrupt_at(reason, start)
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.chunks.iter()
    }
}

/// Returns the error for a chunk that contradicts its specification.
pub(crate) fn invalid(start: Logical, reason: &str) -> crate::error::Error {
    corrupt_at(format!("invalid chunk of btrfs: {reason}"), start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{BlockGroupType, Profile};

    fn chunk(start: u64, len_bytes: u64) -> Chunk {
        Chunk {
            start: Logical(start),
            len_bytes,
            block_group: BlockGroupType(1),
            profile: Profile::Single,
            stripes: Vec::new(),
        }
    }

    #[test]
    fn chunks_do_not_overlap() {
        let mut map = ChunkMap::default();
        map.insert(chunk(100, 50)).unwrap();
        map.insert(chunk(150, 50)).unwrap();
        map.insert(chunk(0, 100)).unwrap();
        for (start, len_bytes) in [(100, 1), (99, 1), (199, 5), (0, 1000)] {
            assert!(map.insert(chunk(start, len_bytes)).is_err(), "{start}");
        }
        assert_eq!(map.find(Logical(149), 1).unwrap().start, Logical(100));
        assert!(map.find(Logical(149), 2).is_err());
        assert!(map.find(Logical(200), 1).is_err());
        assert!(map.find(Logical(u64::MAX), u64::MAX).is_err());
    }
}
