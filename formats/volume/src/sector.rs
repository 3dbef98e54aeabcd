//! Sectors, the unit of partition tables.

use std::fmt;

use diskfs_block::{BlockRead, Error, Result};

/// A logical block address: the number of a sector, from the start of the disk.
///
/// It has no byte offset without a [`SectorSize`], and may be past the end of any disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lba(pub(crate) u64);

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The size of a sector, the unit of LBAs.
///
/// An image does not record it, and with another size the same table means other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SectorSize {
    /// 512 bytes: nearly every disk, and those that emulate it.
    B512,
    /// 4096 bytes: "4K native" disks.
    B4096,
}

impl SectorSize {
    /// The two sizes, in the order in which they are tried: images of 4K native disks are rare.
    pub(crate) const ALL: [Self; 2] = [Self::B512, Self::B4096];

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// Returns the number of bytes as a `u64`.
    pub(crate) const fn len_bytes(self) -> u64 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// Converts `sectors` to bytes; returns `None` if that does not fit in 64 bits.
    pub(crate) const fn to_bytes(self, sectors: u64) -> Option<u64> {
        sectors.checked_mul(self.len_bytes())
    }

    /// Returns the number of whole sectors on `device`. An incomplete sector at the end does not
    /// count.
    pub(crate) fn count_on(self, device: &dyn BlockRead) -> u64 {
        device
            .size_bytes()
            .checked_div(self.len_bytes())
            .unwrap_or(0)
    }

    /// Returns the byte at which `lba` begins.
    pub(crate) fn offset_of(self, lba: Lba) -> Result<u64> {
        self.to_bytes(lba.0).ok_or_else(|| {
            Error::corrupt(format!("invalid LBA {lba}: it is past the end of any disk"))
        })
    }
}
