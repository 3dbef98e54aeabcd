//! `CE`: where the entries of a record go on (SUSP, 5.1).

use crate::error::{Result, corrupt};
use crate::numbers::Both32;

use super::Blocks;

/// An area has room in one block for all that a record can want; Linux reads no longer one.
const MAX_BYTES: u32 = 2048;

/// A continuation area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContinuationArea {
    block: u32,
    offset: u32,
    len_bytes: u32,
}

impl ContinuationArea {
    /// That of an entry of the record at `place`.
    pub(super) fn parse(entry: &[u8], place: u64) -> Result<Self> {
        let numbers = [4, 12, 20].map(|at| Both32::at(entry, at));
        let [Some(block), Some(offset), Some(len_bytes)] = numbers else {
            return Err(corrupt("CE entry is too short", place));
        };
        if len_bytes > MAX_BYTES {
            let reason = format!("continuation area of {len_bytes} bytes, more than {MAX_BYTES}");
            return Err(corrupt(reason, place));
        }
        Ok(Self {
            block,
            offset,
            len_bytes,
        })
    }

    /// Its bytes, for the record at `place`.
    pub(super) fn read(self, blocks: &impl Blocks, place: u64) -> Result<Vec<u8>> {
        let start = blocks
            .byte_of(self.block)
            .saturating_add(self.offset.into());
        let len = usize::try_from(self.len_bytes).unwrap_or(usize::MAX);
        let bytes = blocks.metadata_at(start, len)?;
        bytes.ok_or_else(|| corrupt("continuation area lies outside of the device", place))
    }
}
