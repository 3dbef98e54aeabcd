//! Entries of the block allocation table: MS-VHDX 2.5.1.

use diskfs_block::{Error, Result};

const STATE_MASK: u64 = 7;
/// The state of a payload block or sector bitmap that is stored.
const PRESENT: u64 = 6;
/// The entry of a payload block that reads as zeroes.
pub(crate) const ZERO: u64 = 2;
/// The bits of the offset in the file, which is in units of 1 MiB in the upper 44 bits.
const OFFSET_MASK: u64 = !0xf_ffff;

/// The state of a payload block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadBlock {
    /// Zeroes without a parent, else the parent's.
    NotPresent,
    /// Zeroes: declared, undefined or unmapped.
    Zero,
    /// Stored at this offset in the file, in bytes.
    FullyPresent(u64),
    /// Stored at this offset as far as the sector bitmap says, else the parent's.
    PartiallyPresent(u64),
}

impl PayloadBlock {
    /// Decodes the entry at byte `at` of the file.
    pub(crate) fn decode(entry: u64, at: u64) -> Result<Self> {
        match entry & STATE_MASK {
            0 => Ok(Self::NotPresent),
            // Undefined, zero, unmapped, and unmapped in version 0.95 of the format, which QEMU
            // reads, too.
            1 | 2 | 3 | 5 => Ok(Self::Zero),
            PRESENT => Ok(Self::FullyPresent(entry & OFFSET_MASK)),
            7 => Ok(Self::PartiallyPresent(entry & OFFSET_MASK)),
            state => Err(Error::corrupt(format!("invalid state {state} of a block")).at(at)),
        }
    }
}

/// Returns the entry of a stored payload block, which begins at a multiple of 1 MiB.
pub(crate) const fn encode_present(at: u64) -> u64 {
    at & OFFSET_MASK | PRESENT
}

/// Decodes the entry of a sector bitmap at byte `at` of the file: the offset of the bitmap.
pub(crate) fn decode_bitmap(entry: u64, at: u64) -> Result<u64> {
    if entry & STATE_MASK == PRESENT {
        return Ok(entry & OFFSET_MASK);
    }
    Err(Error::corrupt("sector bitmap of a partially present block is missing").at(at))
}
