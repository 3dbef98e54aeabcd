//! Compression of grains: zlib (RFC 1950).

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{Error, Result};
use flate2::{Compress, Compression, FlushCompress, Status};

use super::options::GRAIN_BYTES;

/// A compressor of grains that keeps its memory, for one thread.
#[derive(Debug)]
pub struct GrainCompressor {
    codec: Compress,
    grain: Vec<u8>,
}

impl Default for GrainCompressor {
    fn default() -> Self {
        Self::of(Compression::default())
    }
}

impl GrainCompressor {
    /// Returns a compressor of a level: 1 (fast) to 9 (small).
    ///
    /// # Errors
    /// `Invalid` for another level.
    pub fn with_level(level: u32) -> Result<Self> {
        if !(1..=9).contains(&level) {
            let reason = format!("invalid level {level} of zlib: expected 1 to 9");
            return Err(Error::invalid(reason));
        }
        Ok(Self::of(Compression::new(level)))
    }

    fn of(level: Compression) -> Self {
        Self {
            codec: Compress::new(level, true),
            grain: Vec::new(),
        }
    }

    /// Compresses the data of a grain. The last grain of a disk may be shorter than
    /// [`GRAIN_BYTES`]: zeroes fill it up. The same data makes the same bytes.
    ///
    /// # Errors
    /// `Invalid` if there are more than [`GRAIN_BYTES`] bytes.
    pub fn compress(&mut self, data: &[u8]) -> Result<Vec<u8>> {
        if len_u64(data.len()) > GRAIN_BYTES {
            return Err(Error::invalid("a grain has at most 64 KiB"));
        }
        self.grain.clear();
        self.grain.extend_from_slice(data);
        self.grain.resize(index(GRAIN_BYTES), 0);
        self.codec.reset();
        // zlib's bound for data that cannot be compressed is far below twice its length.
        let mut stored = Vec::with_capacity(index(GRAIN_BYTES.saturating_mul(2)));
        let status = self
            .codec
            .compress_vec(&self.grain, &mut stored, FlushCompress::Finish);
        match status {
            Ok(Status::StreamEnd) => Ok(stored),
            _ => Err(Error::invalid("cannot compress a grain")),
        }
    }
}

/// Compresses the data of one grain; see [`GrainCompressor::compress`].
///
/// # Errors
/// `Invalid` if there are more than [`GRAIN_BYTES`] bytes.
pub fn compress_grain(data: &[u8]) -> Result<Vec<u8>> {
    GrainCompressor::default().compress(data)
}
