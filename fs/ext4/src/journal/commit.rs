//! `struct commit_header`: the commit block, which completes a transaction.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use diskfs_vfs::Timestamp;

use super::block_header::{BlockType, RawBlockHeader, Sequence};
use super::checksum::{BlockChecksum, TransactionChecksum};

/// The header as it is stored.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCommitHeader {
    header: RawBlockHeader,
    h_chksum_type: u8,
    h_chksum_size: u8,
    h_padding: [u8; 2],
    h_chksum: [U32; 8],
    h_commit_sec: U64,
    h_commit_nsec: U32,
}

/// The offset of the checksum.
const CHECKSUM_OFFSET: usize = std::mem::offset_of!(RawCommitHeader, h_chksum);
/// The type number `JBD2_CRC32_CHKSUM`. MD5 and SHA-1 have type numbers, but no implementation
/// exists.
const TYPE_CRC32: u8 = 1;
/// The size of a CRC-32.
const CRC32_BYTES: u8 = 4;

/// Encodes a commit block without a checksum.
pub(super) fn encode(block_bytes: usize, sequence: Sequence, time: Timestamp) -> Vec<u8> {
    let raw = RawCommitHeader {
        header: RawBlockHeader::new(BlockType::Commit, sequence),
        h_chksum_type: 0,
        h_chksum_size: 0,
        h_padding: [0; 2],
        h_chksum: [U32::ZERO; 8],
        h_commit_sec: U64::new(u64::try_from(time.seconds).unwrap_or(0)),
        h_commit_nsec: U32::new(time.nanoseconds),
    };
    let mut block = raw.as_bytes().to_vec();
    block.resize(block_bytes, 0);
    block
}

/// Writes the checksum of versions 2 and 3 into a commit block.
pub(super) fn put_checksum(block: &mut [u8], checksum: BlockChecksum) {
    let sum = checksum.of_block(block, CHECKSUM_OFFSET);
    crate::bytes::put(block, CHECKSUM_OFFSET, &sum.to_be_bytes());
}

/// A commit block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commit<'a> {
    raw: &'a RawCommitHeader,
    block: &'a [u8],
}

impl<'a> Commit<'a> {
    /// Parses a commit block. Returns `None` if the block is too short, which does not happen.
    pub(super) fn parse(block: &'a [u8]) -> Option<Self> {
        let (raw, _) = RawCommitHeader::ref_from_prefix(block).ok()?;
        Some(Self { raw, block })
    }

    /// Returns the time of the commit, in seconds since 1970. It never runs backwards within one
    /// log, so an earlier time means a block left over from a previous round.
    pub(super) fn time_seconds(&self) -> u64 {
        self.raw.h_commit_sec.get()
    }

    /// Returns true if the checksum of the block itself is right (versions 2 and 3). It may also be
    /// the checksum of the header followed by zeroes: then only the first sector was written, which
    /// is enough.
    pub(super) fn is_right(&self, checksum: BlockChecksum) -> bool {
        let stored = self.stored();
        if stored == checksum.of_block(self.block, CHECKSUM_OFFSET) {
            return true;
        }
        let header = self
            .block
            .get(..size_of::<RawCommitHeader>())
            .unwrap_or_default();
        let mut only_header = header.to_vec();
        only_header.resize(self.block.len(), 0);
        stored == checksum.of_block(&only_header, CHECKSUM_OFFSET)
    }

    /// Returns true if the transaction's blocks have this checksum (version 1), or if the block
    /// stores none.
    pub(super) fn sums_up(&self, sum: TransactionChecksum) -> bool {
        let (kind, size) = (self.raw.h_chksum_type, self.raw.h_chksum_size);
        match (kind, size, self.stored()) {
            (0, 0, 0) => true,
            (TYPE_CRC32, CRC32_BYTES, stored) => stored == sum.value(),
            _ => false,
        }
    }

    fn stored(&self) -> u32 {
        let [first, ..] = &self.raw.h_chksum;
        first.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u8, size: u8, checksum: u32) -> Vec<u8> {
        let mut block = vec![0; 1024];
        block[12] = kind;
        block[13] = size;
        block[16..20].copy_from_slice(&checksum.to_be_bytes());
        block[55] = 77;
        block
    }

    #[test]
    fn version_1_sums_up_the_transaction() {
        let mut sum = TransactionChecksum::new();
        sum.update(b"blocks");
        let says = |kind, size, checksum| {
            let block = block(kind, size, checksum);
            Commit::parse(&block).unwrap().sums_up(sum)
        };
        assert!(says(1, 4, sum.value()));
        assert!(says(0, 0, 0));
        assert!(!says(1, 4, sum.value() ^ 1));
        assert!(!says(2, 4, sum.value()), "MD5");
        assert!(!says(0, 4, sum.value()));
    }

    #[test]
    fn what_is_written_is_read() {
        let checksum = BlockChecksum::of_uuid(&[3; 16]);
        let time = Timestamp {
            seconds: 0x1_0000_0001,
            nanoseconds: 5,
        };
        let mut block = encode(1024, Sequence(4), time);
        put_checksum(&mut block, checksum);
        let commit = Commit::parse(&block).unwrap();
        assert!(commit.is_right(checksum));
        assert_eq!(commit.time_seconds(), 0x1_0000_0001);
    }

    #[test]
    fn the_header_alone_is_enough() {
        let checksum = BlockChecksum::of_uuid(&[3; 16]);
        let sum = checksum.of_block(&block(0, 0, 0), CHECKSUM_OFFSET);
        let mut block = block(0, 0, sum);
        let right = |block: &[u8]| Commit::parse(block).unwrap().is_right(checksum);
        assert!(right(&block));
        assert_eq!(Commit::parse(&block).unwrap().time_seconds(), 77);
        block[512..].fill(0xaa);
        assert!(right(&block));
        block[50] = 1;
        assert!(!right(&block));
        assert!(Commit::parse(&block[..59]).is_none());
    }
}
