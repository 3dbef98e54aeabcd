//! The superblock of a new journal.

use zerocopy::big_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

use crate::block::BlockSize;
use crate::bytes::put;

use super::super::block_header::{BlockType, RawBlockHeader, Sequence};
use super::{RawJournalSuperblock, SUPERBLOCK_BYTES};

/// Returns the superblock of an empty journal of `len_blocks` blocks, of which the last
/// `fast_commit_blocks` are for fast commits. It has no features: those are set when the filesystem
/// is opened for writing.
pub(crate) fn new_superblock(
    uuid: [u8; 16],
    size: BlockSize,
    len_blocks: u32,
    fast_commit_blocks: u32,
) -> [u8; SUPERBLOCK_BYTES] {
    let mut raw = RawJournalSuperblock::new_zeroed();
    raw.header = RawBlockHeader::new(BlockType::SuperblockV2, Sequence(0));
    raw.s_blocksize = U32::new(size.bytes());
    raw.s_maxlen = U32::new(len_blocks);
    raw.s_first = U32::new(1);
    raw.s_sequence = U32::new(1);
    raw.s_uuid = uuid;
    raw.s_nr_users = U32::new(1);
    raw.s_num_fc_blks = U32::new(fast_commit_blocks);
    let mut bytes = [0; SUPERBLOCK_BYTES];
    put(&mut bytes, 0, raw.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::JournalSuperblock;
    use super::*;

    #[test]
    fn a_new_journal_is_empty() {
        let size = BlockSize::from_log(2).unwrap();
        let bytes = new_superblock([7; 16], size, 4096, 64);
        let parsed = JournalSuperblock::parse(&bytes, size).unwrap();
        assert_eq!((parsed.len_blocks, parsed.start), (4096, None));
        assert_eq!(parsed.first.0, 1);
    }
}
