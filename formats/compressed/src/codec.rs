//! The compressions, and the decompression of a part of a file by itself.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};

use crate::device_reader::DeviceReader;
use crate::units::Unit;
use crate::xz_index;

/// The memory limit of decompression in KiB: `xz -9` needs 64 MiB, and larger needs do not occur in
/// practice.
pub(crate) const MEMORY_KIB: u32 = 128 << 10;

/// The number of bytes of a block of xz to read at once.
const PIECE_BYTES: usize = 256 << 10;

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

    /// Decompresses a unit to exactly `len` bytes. It has `stored_bytes` in the file. `spare` is used
    /// for it, if that has the length and no other user.
    pub(crate) fn decompress(
        self,
        file: &Arc<dyn BlockRead>,
        (unit, stored_bytes): (&Unit, u64),
        len: usize,
        spare: Option<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        let cut = || Error::corrupt("the file ends within compressed data").at(unit.offset);
        let stored =
            || read_within(file.as_ref(), unit.offset, bytes::index(stored_bytes))?.ok_or_else(cut);
        // Collecting fills the allocation of the result itself: a unit can have 32 MiB.
        let is_free = |it: &mut Arc<[u8]>| it.len() == len && Arc::get_mut(it).is_some();
        let spare = spare.and_then(|mut it| is_free(&mut it).then_some(it));
        let mut unpacked: Arc<[u8]> =
            spare.unwrap_or_else(|| std::iter::repeat_n(0, len).collect());
        let buf = Arc::get_mut(&mut unpacked).unwrap_or_default();
        let done = match self {
            Self::Gzip => fill(flate2::bufread::GzDecoder::new(&*stored()?), buf),
            Self::Xz => {
                if unit.offset.saturating_add(stored_bytes) > file.size_bytes() {
                    return Err(cut());
                }
                let block = DeviceReader::at(Arc::clone(file), unit.offset, PIECE_BYTES);
                let block = block.take(stored_bytes);
                let stream = xz_index::stream_of(block, unit.stored_bytes, unit.flags, len);
                let decoder = lzma_rust2::XzReader::new_mem_limit(stream, false, MEMORY_KIB);
                fill(decoder, buf)
            }
            Self::Zstd => zstd::bulk::decompress_to_buffer(&stored()?, buf).and_then(|made| {
                if made == len {
                    Ok(())
                } else {
                    Err(other_length())
                }
            }),
            Self::Bzip2 | Self::Lz4 | Self::LegacyLz4 => Err(io::ErrorKind::Unsupported.into()),
        };
        done.map_err(|e| self.failed(e).at(unit.offset))?;
        Ok(unpacked)
    }

    /// Returns the error of decompression: that of reading, if that is the cause.
    fn failed(self, error: io::Error) -> Error {
        let reason = format!("invalid {self} data");
        error
            .downcast::<Error>()
            .unwrap_or_else(|error| Error::corrupt(reason).with_source(error))
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
