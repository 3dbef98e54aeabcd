//! The `CE` entry: the continuation area of a record (SUSP, 5.1).

use crate::error::{Result, corrupt};
use crate::numbers::Both32;

use super::Blocks;

/// The size of the largest continuation area. One block is enough for all entries of a record, and
/// Linux has the same limit.
const MAX_BYTES: u32 = 2048;

/// The location of a continuation area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContinuationArea {
    block: u32,
    offset: u32,
    len_bytes: u32,
}

impl ContinuationArea {
    /// Parses a `CE` entry of the record at `place`.
    pub(super) fn parse(entry: &[u8], place: u64) -> Result<Self> {
        let numbers = [4, 12, 20].map(|at| Both32::at(entry, at));
        let [Some(block), Some(offset), Some(len_bytes)] = numbers else {
            return Err(corrupt("invalid CE entry: it is too short", place));
        };
        if len_bytes > MAX_BYTES {
            let reason =
                format!("continuation area is too large: {len_bytes} bytes, at most {MAX_BYTES}");
            return Err(corrupt(reason, place));
        }
        Ok(Self {
            block,
            offset,
            len_bytes,
        })
    }

    /// Reads the area, which belongs to the record at `place`.
    pub(super) fn read(self, blocks: &impl Blocks, place: u64) -> Result<Vec<u8>> {
        let start = blocks
            .byte_of(self.block)
            .saturating_add(self.offset.into());
        let len = usize::try_from(self.len_bytes).unwrap_or(usize::MAX);
        let bytes = blocks.metadata_at(start, len)?;
        bytes.ok_or_else(|| {
            corrupt(
                "invalid continuation area: it is outside of the device",
                place,
            )
        })
    }
}
