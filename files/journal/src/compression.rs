//! Decompression of field values. <https://systemd.io/JOURNAL_FILE_FORMAT/#data-objects>; systemd's
//! `compress.c`.

use std::io::{self, Read};
use std::sync::PoisonError;

use diskfs_block::{Error, Result, len_of};
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{DCtx, DParameter, ResetDirective};

use crate::stored::StoredPayload;

/// The compression of a data object: `OBJECT_COMPRESSED_XZ` and the like of `ObjectFlags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Xz,
    Lz4,
    Zstd,
}

/// The memory limit for XZ. systemd compresses with dictionaries of 1 MiB.
const XZ_MEMORY_KIB: u32 = 16 << 10;

/// The maximum window of zstd (8 MiB). systemd compresses with the default level, whose window is 2
/// MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The maximum size of an LZ4 value. LZ4 is always decompressed as a whole, so larger values are
/// refused.
const LZ4_MAX_BYTES: u64 = 64 << 20;

/// The maximum compression ratio of an LZ4 block.
const LZ4_MAX_RATIO: u64 = 255;

impl Compression {
    pub(crate) fn of(flags: u8) -> Result<Option<Self>> {
        match flags {
            0 => Ok(None),
            1 => Ok(Some(Self::Xz)),
            2 => Ok(Some(Self::Lz4)),
            4 => Ok(Some(Self::Zstd)),
            other => {
                let reason = format!("unsupported flags of a data object: {other:#x}");
                Err(Error::unsupported(reason))
            }
        }
    }
}

/// Decompresses the first `limit` bytes. Also returns whether there are more.
pub(crate) fn decompress(
    compression: Compression,
    stored: &StoredPayload<'_>,
    limit: u64,
) -> Result<(Vec<u8>, bool)> {
    match compression {
        Compression::Xz => {
            let decoder = lzma_rust2::XzReader::new_mem_limit(stream(stored), false, XZ_MEMORY_KIB);
            read_limited(decoder, stored, limit)
        }
        Compression::Lz4 => lz4(stored, limit),
        Compression::Zstd => zstd(stored, limit),
    }
}

fn zstd(stored: &StoredPayload<'_>, limit: u64) -> Result<(Vec<u8>, bool)> {
    let kept = stored.reader.zstd.lock();
    let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
    let context = kept.get_or_insert_with(DCtx::create);
    let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
    let ready = context.reset(ResetDirective::SessionOnly);
    if ready.and_then(|_| context.set_parameter(window)).is_err() {
        return Err(Error::unsupported("cannot initialise the zstd decoder").at(stored.offset));
    }
    let decoder = Decoder::with_context(stream(stored), context).single_frame();
    read_limited(decoder, stored, limit)
}

/// Decompresses a value that consists of its size in 64 bits and an LZ4 block.
fn lz4(stored: &StoredPayload<'_>, limit: u64) -> Result<(Vec<u8>, bool)> {
    let broken = || broken(stored, "LZ4");
    let (packed, is_truncated) = stored.plain(LZ4_MAX_BYTES)?;
    let (size, block) = packed.split_first_chunk::<8>().ok_or_else(broken)?;
    let size = u64::from_le_bytes(*size);
    if size > LZ4_MAX_BYTES || is_truncated {
        let reason = format!("LZ4 field is too large: {size} bytes, at most {LZ4_MAX_BYTES}");
        return Err(Error::unsupported(reason).at(stored.offset));
    }
    if size > len_of(block).saturating_mul(LZ4_MAX_RATIO) {
        return Err(broken());
    }
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| broken())?];
    let len = lz4_flex::block::decompress_into(block, &mut bytes).map_err(|_| broken())?;
    if len != bytes.len() {
        return Err(broken());
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    bytes.truncate(limit);
    Ok((bytes, limit < len))
}

fn read_limited(
    decoder: impl Read,
    stored: &StoredPayload<'_>,
    limit: u64,
) -> Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    // Read one byte more than the limit, to see whether there are more.
    let mut decoder = decoder.take(limit.saturating_add(1));
    let unpacked = decoder.read_to_end(&mut bytes);
    unpacked.map_err(|error| broken(stored, "compressed").with_source(error))?;
    let is_truncated = len_of(&bytes) > limit;
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok((bytes, is_truncated))
}

fn broken(stored: &StoredPayload<'_>, what: &str) -> Error {
    Error::corrupt(format!("invalid {what} data in a field")).at(stored.offset)
}

/// The buffer size for reading compressed values.
const PIECE_BYTES: usize = 16 << 10;

fn stream<'a>(stored: &'a StoredPayload<'a>) -> io::BufReader<Stream<'a>> {
    let capacity = usize::try_from(stored.len).unwrap_or(PIECE_BYTES);
    let stream = Stream {
        stored,
        position: 0,
    };
    io::BufReader::with_capacity(capacity.clamp(1, PIECE_BYTES), stream)
}

/// A reader of the compressed bytes.
struct Stream<'a> {
    stored: &'a StoredPayload<'a>,
    position: u64,
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.stored.len.saturating_sub(self.position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let buf = buf.get_mut(..len).unwrap_or_default();
        let at = self.stored.offset.saturating_add(self.position);
        let read = self.stored.reader.read(at, buf);
        read.map_err(io::Error::other)?;
        self.position = self.position.saturating_add(len_of(buf));
        Ok(len)
    }
}
