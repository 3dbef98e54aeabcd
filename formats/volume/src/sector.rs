//! The unit that partition tables count in.

use std::fmt;

use diskfs_block::{BlockRead, Error, Result};

/// A logical block address: the number of a sector, from the start of the disk.
///
/// It says nothing of bytes without a [`SectorSize`], and may lie past the end of any disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lba(pub(crate) u64);

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes in a sector: what one LBA stands for.
///
/// An image does not record it, and the same table means other bytes with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SectorSize {
    /// 512 bytes: nearly every disk, and those that emulate it.
    B512,
    /// 4096 bytes: "4K native" disks.
    B4096,
}

impl SectorSize {
    /// Both, in the order in which they are tried: images of 4K native disks are rare.
    pub(crate) const ALL: [Self; 2] = [Self::B512, Self::B4096];

    /// The number.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// The number, as sums with offsets need it.
    pub(crate) const fn len_bytes(self) -> u64 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// `sectors` in bytes; `None` where 64 bits do not hold it.
    pub(crate) const fn to_bytes(self, sectors: u64) -> Option<u64> {
        sectors.checked_mul(self.len_bytes())
    }

    /// Whole sectors on `device`. Bytes after the last whole one belong to none.
    pub(crate) fn count_on(self, device: &dyn BlockRead) -> u64 {
        device
            .size_bytes()
            .checked_div(self.len_bytes())
            .unwrap_or(0)
    }

    /// The byte at which `lba` begins.
    pub(crate) fn offset_of(self, lba: Lba) -> Result<u64> {
        self.to_bytes(lba.0)
            .ok_or_else(|| Error::corrupt(format!("LBA {lba} lies past any disk's end")))
    }
}
