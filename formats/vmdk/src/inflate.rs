//! Decompression of grains: zlib (RFC 1950).

use std::sync::{Mutex, PoisonError};

use diskfs_block::bytes::len_u64;
use diskfs_block::{Error, Result};
use flate2::{Decompress, FlushDecompress, Status};

/// A decompressor that keeps the contexts of its threads for reuse.
#[derive(Debug, Default)]
pub(crate) struct Inflater {
    idle: Mutex<Vec<Decompress>>,
}

impl Inflater {
    /// Decompresses a grain of at most `grain_bytes` bytes, and at least `needed_bytes`, which are
    /// returned.
    ///
    /// # Errors
    /// `Corrupt` without a place if the data are invalid, too long or too short.
    pub(crate) fn run(
        &self,
        stored: &[u8],
        grain_bytes: usize,
        needed_bytes: usize,
    ) -> Result<Vec<u8>> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut codec = idle.unwrap_or_else(|| Decompress::new(true));
        let result = inflate(&mut codec, stored, grain_bytes, needed_bytes);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(codec);
        result
    }
}

fn inflate(
    codec: &mut Decompress,
    stored: &[u8],
    grain_bytes: usize,
    needed_bytes: usize,
) -> Result<Vec<u8>> {
    codec.reset(true);
    let mut grain = vec![0; grain_bytes];
    let status = codec
        .decompress(stored, &mut grain, FlushDecompress::Finish)
        .map_err(|e| invalid("not valid zlib data").with_source(e))?;
    let len_bytes = codec.total_out();
    if status != Status::StreamEnd {
        let is_full = len_bytes == len_u64(grain_bytes);
        let reason = if is_full {
            "it has more data than a grain"
        } else {
            "it is truncated"
        };
        return Err(invalid(reason));
    }
    if len_bytes < len_u64(needed_bytes) {
        return Err(invalid(&format!(
            "it has {len_bytes} of {needed_bytes} bytes"
        )));
    }
    grain.truncate(needed_bytes);
    Ok(grain)
}

fn invalid(what: &str) -> Error {
    Error::corrupt(format!("invalid compressed grain: {what}"))
}
