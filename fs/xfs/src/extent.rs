//! Extents: packed records of 128 bits.
//!
//! Source: "XFS Algorithms & Data Structures", section "Extent List".

use crate::bytes::be64;
use crate::error::{Result, corrupt};
use crate::superblock::{FsBlock, Superblock};

/// The length of a record, `xfs_bmbt_rec_t`.
pub(crate) const RECORD_BYTES: usize = 16;

/// Contiguous blocks of a file that are contiguous on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first block in the file, of 54 bits.
    pub(crate) file_block: u64,
    pub(crate) first: FsBlock,
    /// The length of 21 bits; never zero.
    pub(crate) len_blocks: u32,
    /// True for data; false if the extent is allocated but unwritten, and reads as zeroes.
    pub(crate) written: bool,
}

impl Extent {
    /// Returns the file block after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.file_block.saturating_add(self.len_blocks.into())
    }

    /// Unpacks a record: 1 bit of state, 54 bits of file block, 52 bits of block, 21 bits of
    /// length.
    fn unpack(record: &[u8]) -> Option<Self> {
        let (high, low) = (be64(record, 0)?, be64(record, 8)?);
        let block = (high & 0x1ff).wrapping_shl(43) | low.wrapping_shr(21);
        Some(Self {
            file_block: (high & (u64::MAX >> 1)).wrapping_shr(9),
            first: FsBlock(block),
            len_blocks: u32::try_from(low & 0x1f_ffff).unwrap_or(0),
            written: high.wrapping_shr(63) == 0,
        })
    }

    /// Unpacks and checks a record that follows file block `after` and is stored at byte `at`.
    ///
    /// # Errors
    /// `Corrupt` if it is empty, overlaps its predecessor, or lies outside of its allocation group.
    pub(crate) fn parse(
        superblock: &Superblock,
        record: &[u8],
        after: u64,
        at: u64,
    ) -> Result<Self> {
        /// The largest file block, `XFS_MAX_FILEOFF`.
        const FILE_BLOCK_MAX: u64 = (1 << 54) - 1;
        let extent = Self::unpack(record).ok_or_else(|| corrupt("truncated extent", at))?;
        let is_valid = extent.len_blocks > 0
            && extent.file_block >= after
            && extent.end() <= FILE_BLOCK_MAX
            && superblock
                .run_bytes(extent.first, extent.len_blocks.into())
                .is_some();
        if is_valid {
            return Ok(extent);
        }
        let (first, len, file_block) = (extent.first, extent.len_blocks, extent.file_block);
        let reason = format!(
            "invalid extent: {len} blocks from block {first} on, for file block {file_block}"
        );
        Err(corrupt(reason, at))
    }
}

/// Parses the records of a list, which is in an inode at byte `at`.
pub(crate) fn parse_list(superblock: &Superblock, bytes: &[u8], at: u64) -> Result<Vec<Extent>> {
    let mut after = 0;
    bytes
        .chunks_exact(RECORD_BYTES)
        .map(|record| {
            let extent = Extent::parse(superblock, record, after, at)?;
            after = extent.end();
            Ok(extent)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(extent: &Extent) -> [u8; 16] {
        let state = u64::from(!extent.written) << 63;
        let high = state | extent.file_block << 9 | extent.first.0 >> 43;
        let low = extent.first.0 << 21 | u64::from(extent.len_blocks);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn a_record_unpacks_to_what_was_packed(
            file_block in 0_u64..1 << 54, block in 0_u64..1 << 52, len_blocks in 0_u32..1 << 21,
            written: bool,
        ) {
            let extent = Extent { file_block, first: FsBlock(block), len_blocks, written };
            prop_assert_eq!(Extent::unpack(&pack(&extent)), Some(extent));
        }
    }

    #[test]
    fn lists_are_sorted_and_within_the_device() {
        let bytes = crate::superblock::tests::sample();
        let superblock = Superblock::parse(&bytes, 16 << 20).unwrap();
        let extent = |file_block, block, len_blocks| {
            pack(&Extent {
                file_block,
                first: FsBlock(block),
                len_blocks,
                written: true,
            })
        };
        let parse = |records: &[[u8; 16]]| parse_list(&superblock, &records.concat(), 0);
        assert_eq!(
            parse(&[extent(0, 10, 5), extent(7, 20, 1)]).unwrap().len(),
            2
        );
        assert!(parse(&[extent(0, 10, 5), extent(4, 20, 1)]).is_err());
        assert!(parse(&[extent(0, 10, 0)]).is_err());
        assert!(parse(&[extent(0, 1020, 5)]).is_err());
        assert!(parse(&[extent(0, 4 << 10, 1)]).is_err());
        assert!(parse(&[extent((1 << 54) - 1, 10, 1)]).is_err());
    }
}
