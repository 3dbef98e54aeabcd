//! The compressions, and the decompression of a part of a file by itself.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use diskfs_block::{Error, Result};

use crate::units::Unit;
use crate::xz_index;

/// The memory limit of decompression in KiB: `xz -9` needs 64 MiB, and larger needs do not occur in
/// practice.
pub(crate) const MEMORY_KIB: u32 = 128 << 10;

/// A supported compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// gzip (RFC 1952).
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz (The .xz File Format).
    Xz,
    /// zstd (RFC 8878).
    Zstd,
    /// Frames of LZ4.
    Lz4,
    /// LZ4's legacy frames.
    LegacyLz4,
}

impl Codec {
    /// Returns the compression of a file with this start. Skippable frames that come first in a
    /// file are not recognised.
    pub fn of(start: &[u8]) -> Option<Self> {
        Some(match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // The size of the blocks, then the magic number of a block or of the end.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, ..] => Self::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            [0x02, 0x21, 0x4c, 0x18, ..] => Self::LegacyLz4,
            _ => return None,
        })
    }

    /// Returns the name of the compression.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Lz4 | Self::LegacyLz4 => "lz4",
        }
    }

    /// Decompresses a unit to exactly `len` bytes. `stored` is the unit as it lies in the file.
    pub(crate) fn decompress(self, stored: &[u8], unit: &Unit, len: usize) -> Result<Arc<[u8]>> {
        let mut unpacked = vec![0; len];
        let done = match self {
            Self::Gzip => fill(flate2::bufread::GzDecoder::new(stored), &mut unpacked),
            Self::Xz => {
                let stream = xz_index::stream_of(stored, unit.stored_bytes, unit.flags, len);
                let decoder = lzma_rust2::XzReader::new_mem_limit(stream, false, MEMORY_KIB);
                fill(decoder, &mut unpacked)
            }
            Self::Zstd => {
                zstd::bulk::decompress_to_buffer(stored, &mut unpacked).and_then(|made| {
                    if made == len {
                        Ok(())
                    } else {
                        Err(other_length())
                    }
                })
            }
            Self::Bzip2 | Self::Lz4 | Self::LegacyLz4 => Err(io::ErrorKind::Unsupported.into()),
        };
        done.map_err(|e| {
            let reason = format!("invalid {self} data");
            Error::corrupt(reason).at(unit.offset).with_source(e)
        })?;
        Ok(unpacked.into())
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads exactly `buf`, up to the end of the stream, which has the checksum.
fn fill(mut stream: impl Read, buf: &mut [u8]) -> io::Result<()> {
    stream.read_exact(buf)?;
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(other_length()),
    }
}

fn other_length() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the decompressed data has another length than its header says",
    )
}
