//! `journal_header_t`: the header of every block of the log except for data blocks.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The magic of a header, `JBD2_MAGIC_NUMBER`. A data block that begins with it is written with
/// zeroes in its place ("escaped").
pub(super) const MAGIC: u32 = 0xc03b_3998;

/// The header as it is stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
pub(super) struct RawBlockHeader {
    pub(super) h_magic: U32,
    pub(super) h_blocktype: U32,
    pub(super) h_sequence: U32,
}

impl RawBlockHeader {
    /// Returns the header of a block that belongs to a transaction.
    pub(super) fn new(block_type: BlockType, sequence: Sequence) -> Self {
        Self {
            h_magic: U32::new(MAGIC),
            h_blocktype: U32::new(block_type.into()),
            h_sequence: U32::new(sequence.0),
        }
    }
}

/// The size of a header.
pub(super) const HEADER_BYTES: usize = size_of::<RawBlockHeader>();

/// The type of a block of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockType {
    Descriptor,
    Commit,
    SuperblockV1,
    SuperblockV2,
    Revocation,
    Unknown(u32),
}

impl From<u32> for BlockType {
    fn from(value: u32) -> Self {
        match value {
            1 => Self::Descriptor,
            2 => Self::Commit,
            3 => Self::SuperblockV1,
            4 => Self::SuperblockV2,
            5 => Self::Revocation,
            other => Self::Unknown(other),
        }
    }
}

impl From<BlockType> for u32 {
    fn from(block_type: BlockType) -> Self {
        match block_type {
            BlockType::Descriptor => 1,
            BlockType::Commit => 2,
            BlockType::SuperblockV1 => 3,
            BlockType::SuperblockV2 => 4,
            BlockType::Revocation => 5,
            BlockType::Unknown(other) => other,
        }
    }
}

/// The sequence number of a transaction. The numbers are consecutive, and wrap around after 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence(pub(super) u32);

impl Sequence {
    /// Returns the sequence number of the next transaction.
    pub(super) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl std::fmt::Display for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns a block's type if it has the magic and belongs to transaction `expected`.
pub(super) fn block_type(block: &[u8], expected: Sequence) -> Option<BlockType> {
    let (header, _) = RawBlockHeader::ref_from_prefix(block).ok()?;
    let belongs = header.h_magic.get() == MAGIC && header.h_sequence.get() == expected.0;
    belongs.then(|| header.h_blocktype.get().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_the_expected_transaction_have_a_type() {
        let block = [0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 5, 0, 0, 1, 2];
        assert_eq!(
            block_type(&block, Sequence(0x102)),
            Some(BlockType::Revocation)
        );
        assert_eq!(block_type(&block, Sequence(0x103)), None);
        assert_eq!(block_type(&block[..11], Sequence(0x102)), None);
        assert_eq!(block_type(&[0; 12], Sequence(0)), None);
        assert_eq!(Sequence(u32::MAX).next(), Sequence(0));
    }
}
