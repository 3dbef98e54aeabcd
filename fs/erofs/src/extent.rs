//! Extents of compressed files: how they are stored, and decoded ones.

use diskfs_block::Weight;

use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::place::Place;

/// The maximum length of an extent, as in Linux.
pub(crate) const EXTENT_MAX_BYTES: u64 = 12 << 20;

/// The maximum stored length of an extent, as in Linux.
pub(crate) const STORED_MAX_BYTES: u64 = 1 << 20;

/// The way in which an extent is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    Lz4,
    /// `MicroLZMA`.
    Lzma,
    Deflate,
    Zstd,
    /// Stored as it is.
    Shifted,
    /// Stored as it is, but rotated: each byte has its offset in a block.
    Interlaced,
}

impl Algorithm {
    /// Returns the algorithm with a number, if it is among the bits of `known`.
    ///
    /// # Errors
    /// `Unsupported` for an unknown algorithm; `Corrupt` for one that the superblock lacks.
    pub(crate) fn from_number(known: u16, number: u32, at: u64) -> Result<Self> {
        let algorithm = match number {
            0 => Self::Lz4,
            1 => Self::Lzma,
            2 => Self::Deflate,
            3 => Self::Zstd,
            other => {
                let reason = format!("the unknown algorithm {other} is not supported");
                return Err(Error::new(ErrorKind::Unsupported, reason).at(at));
            }
        };
        if known.wrapping_shr(number) & 1 == 0 {
            let reason = format!("invalid extent: algorithm {number} is not in the superblock");
            return Err(corrupt(reason, at));
        }
        Ok(algorithm)
    }
}

/// An extent that must be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Encoded {
    pub(crate) place: EncodedPlace,
    pub(crate) stored_bytes: u32,
    pub(crate) algorithm: Algorithm,
    /// The offset of the extent in the file, and the length.
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// True if the stored bytes decompress to more than the extent.
    pub(crate) is_partial: bool,
}

/// The place of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EncodedPlace {
    /// An address of a device.
    Device(u64),
    /// After the indexes.
    Inline(Place),
}

impl EncodedPlace {
    /// Returns the byte, for errors.
    pub(crate) const fn at(self) -> u64 {
        match self {
            Self::Device(at) => at,
            Self::Inline(place) => place.at,
        }
    }
}

/// The contents of an extent.
#[derive(Debug)]
pub(crate) struct Decompressed(pub(crate) Vec<u8>);

impl Weight for Decompressed {
    fn weight_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Returns the error for an extent that is longer than Linux accepts.
pub(crate) fn too_large() -> Error {
    let reason = "compressed extents of more than 12 MiB, or 1 MiB compressed, are not supported";
    Error::new(ErrorKind::Unsupported, reason)
}
