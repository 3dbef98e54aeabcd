//! The revocation block (`jbd2_journal_revoke_header_t`): blocks whose data of this and of earlier
//! transactions must not be replayed, because they were freed and have got another use.

use zerocopy::FromBytes;
use zerocopy::big_endian::{U32, U64};

use crate::block::FsBlock;
use crate::bytes::index;

use super::block_header::HEADER_BYTES;

/// Where the records begin, behind `r_count`.
const RECORDS_OFFSET: usize = HEADER_BYTES + 4;

/// How wide the block numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordWidth {
    Bits32,
    Bits64,
}

/// The bytes in use say that they reach past the end of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The blocks that a revocation block names. `tail_bytes` of it are its checksum.
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
    let size = match width {
        RecordWidth::Bits32 => 4,
        RecordWidth::Bits64 => 8,
    };
    Ok(records.chunks_exact(size).filter_map(number))
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
        // A record that is cut is none; a count below the header is an empty block.
        assert_eq!(read(31, Bits64).unwrap().len(), 1);
        assert_eq!(read(16, Bits64).unwrap().len(), 0);
        assert_eq!(read(3, Bits64).unwrap().len(), 0);
    }

    #[test]
    fn never_reaches_into_the_checksum() {
        assert!(read(33, RecordWidth::Bits64).is_none());
        assert!(read(u32::MAX, RecordWidth::Bits32).is_none());
        assert!(records(&[0; 12], RecordWidth::Bits32, 0).is_err());
    }
}
