//! The revocation block (`jbd2_journal_revoke_header_t`). It lists blocks whose versions in this
//! and in earlier transactions must not be replayed, because they were freed and reused.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::block::FsBlock;
use crate::bytes::{index, split64};

use super::block_header::{BlockType, HEADER_BYTES, RawBlockHeader, Sequence};

/// The offset of the records, after `r_count`.
const RECORDS_OFFSET: usize = HEADER_BYTES + 4;

/// The width of block numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordWidth {
    Bits32,
    Bits64,
}

impl RecordWidth {
    const fn size_bytes(self) -> usize {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}

/// The error for a length field that reaches past the end of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// Returns the blocks that a revocation block lists. `tail_bytes` of the block are its checksum.
pub(super) fn records(
    block: &[u8],
    width: RecordWidth,
    tail_bytes: usize,
) -> Result<impl Iterator<Item = FsBlock>, TooLong> {
    // r_count is in bytes, and counts from the start of the block.
    let count = crate::bytes::array(block, HEADER_BYTES).map(u32::from_be_bytes);
    let used = index(count.ok_or(TooLong)?);
    if used > block.len().saturating_sub(tail_bytes) {
        return Err(TooLong);
    }
    let records = block.get(RECORDS_OFFSET..used).unwrap_or_default();
    Ok(records.chunks_exact(width.size_bytes()).filter_map(number))
}

/// Returns how many records fit into a revocation block.
pub(super) fn records_per_block(
    block_bytes: usize,
    width: RecordWidth,
    tail_bytes: usize,
) -> usize {
    let room = block_bytes.saturating_sub(RECORDS_OFFSET.saturating_add(tail_bytes));
    room.checked_div(width.size_bytes()).unwrap_or(0)
}

/// Encodes a revocation block for these blocks, at most [`records_per_block`]. Its last bytes are
/// zeroes.
pub(super) fn encode(
    block_bytes: usize,
    width: RecordWidth,
    sequence: Sequence,
    revoked: &[FsBlock],
) -> Vec<u8> {
    let mut block = Vec::with_capacity(block_bytes);
    let header = RawBlockHeader::new(BlockType::Revocation, sequence);
    let records = revoked.len().saturating_mul(width.size_bytes());
    let used = u32::try_from(records.saturating_add(RECORDS_OFFSET)).unwrap_or(u32::MAX);
    block.extend_from_slice(header.as_bytes());
    block.extend_from_slice(&used.to_be_bytes());
    for target in revoked {
        let (_, low) = split64(target.0);
        match width {
            RecordWidth::Bits32 => block.extend_from_slice(&low.to_be_bytes()),
            RecordWidth::Bits64 => block.extend_from_slice(&target.0.to_be_bytes()),
        }
    }
    block.resize(block_bytes, 0);
    block
}

fn number(record: &[u8]) -> Option<FsBlock> {
    let narrow = || U32::read_from_bytes(record).map(|n| u64::from(n.get()));
    let wide = U64::read_from_bytes(record).map(U64::get);
    wide.or_else(|_| narrow()).ok().map(FsBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(count: u32) -> Vec<u8> {
        let mut block = vec![0; HEADER_BYTES];
        block.extend(count.to_be_bytes());
        block.extend(0x0102_0304_0506_0708u64.to_be_bytes());
        block.extend(9u64.to_be_bytes());
        block.extend([0; 4]);
        block
    }

    fn read(count: u32, width: RecordWidth) -> Option<Vec<u64>> {
        let found = records(&block(count), width, 4)
            .ok()?
            .map(|b| b.0)
            .collect();
        Some(found)
    }

    #[test]
    fn both_widths() {
        use RecordWidth::{Bits32, Bits64};
        assert_eq!(read(32, Bits64).unwrap(), [0x0102_0304_0506_0708, 9]);
        assert_eq!(read(24, Bits32).unwrap(), [0x0102_0304, 0x0506_0708]);
        // An incomplete record does not count; a count below the header means an empty block.
        assert_eq!(read(31, Bits64).unwrap().len(), 1);
        assert_eq!(read(16, Bits64).unwrap().len(), 0);
        assert_eq!(read(3, Bits64).unwrap().len(), 0);
    }

    #[test]
    fn what_is_written_is_read() {
        for width in [RecordWidth::Bits32, RecordWidth::Bits64] {
            let count = u64::try_from(records_per_block(1024, width, 4)).unwrap();
            let revoked: Vec<FsBlock> = (1..=count).map(FsBlock).collect();
            let block = encode(1024, width, Sequence(3), &revoked);
            assert_eq!(block.len(), 1024);
            let read: Vec<FsBlock> = records(&block, width, 4).ok().unwrap().collect();
            assert_eq!(read, revoked);
        }
    }

    #[test]
    fn never_reaches_into_the_checksum() {
        assert!(read(33, RecordWidth::Bits64).is_none());
        assert!(read(u32::MAX, RecordWidth::Bits32).is_none());
        assert!(records(&[0; 12], RecordWidth::Bits32, 0).is_err());
    }
}
