//! The compressor of a filesystem, `compression_id` of the superblock.

use crate::error::{Error, ErrorKind, Result};

/// The compressor that a filesystem uses for all its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compressor {
    /// zlib streams.
    Gzip,
    /// The format of `.lzma` files.
    Lzma,
    /// LZO1X.
    Lzo,
    /// The format of `.xz` files.
    Xz,
    /// LZ4 blocks.
    Lz4,
    /// zstd frames.
    Zstd,
}

impl Compressor {
    /// Returns the compressor with this `compression_id`.
    ///
    /// # Errors
    /// `Unsupported` for an unknown number.
    pub(crate) fn from_id(id: u16) -> Result<Self> {
        Ok(match id {
            1 => Self::Gzip,
            2 => Self::Lzma,
            3 => Self::Lzo,
            4 => Self::Xz,
            5 => Self::Lz4,
            6 => Self::Zstd,
            other => {
                let reason = format!("squashfs with unknown compressor {other} is not supported");
                return Err(Error::new(ErrorKind::Unsupported, reason));
            }
        })
    }

    /// Returns the name, as mksquashfs spells it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lzma => "lzma",
            Self::Lzo => "lzo",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}
