//! Decompression of extents.

mod lzo;

use std::fmt;
use std::sync::{Mutex, PoisonError};

use flate2::{Decompress, FlushDecompress};
use zstd::zstd_safe::{self, DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::error::{Error, ErrorKind, Result, unsupported};

/// The largest compressed extent, before and after decompression (`BTRFS_MAX_COMPRESSED`,
/// `BTRFS_MAX_UNCOMPRESSED`).
pub(crate) const MAX_EXTENT_BYTES: u64 = 128 << 10;

/// The compression of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Compression {
    None,
    Zlib,
    Lzo,
    Zstd,
}

impl Compression {
    /// Returns the compression with this number in an extent.
    pub(crate) fn from_number(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Zlib),
            2 => Ok(Self::Lzo),
            3 => Ok(Self::Zstd),
            _ => Err(unsupported(format!(
                "unknown compression {number} of btrfs"
            ))),
        }
    }
}

/// The decompressor of a filesystem. It keeps contexts for reuse: as many as threads ever
/// decompressed at once.
pub(crate) struct Decompressor {
    sector_bytes: usize,
    zlib: Mutex<Vec<Decompress>>,
    zstd: Mutex<Vec<DCtx<'static>>>,
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    pub(crate) const fn new(sector_bytes: usize) -> Self {
        Self {
            sector_bytes,
            zlib: Mutex::new(Vec::new()),
            zstd: Mutex::new(Vec::new()),
        }
    }

    /// Decompresses `input` until `output` is full. If the input ends earlier, zeroes follow, as on
    /// Linux.
    pub(crate) fn run(
        &self,
        compression: Compression,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<()> {
        let len = match compression {
            Compression::None => copy(input, output),
            Compression::Zlib => self.inflate(input, output)?,
            Compression::Lzo => lzo::decompress(input, output, self.sector_bytes)?,
            Compression::Zstd => self.unzstd(input, output)?,
        };
        output.get_mut(len..).unwrap_or_default().fill(0);
        Ok(())
    }

    /// Decompresses zlib data. Its own checksum is not compared, as on Linux: the extent has one.
    fn inflate(&self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let input = deflate_stream(input).ok_or_else(|| broken("zlib"))?;
        let idle = self
            .zlib
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut context = idle.unwrap_or_else(|| Decompress::new(false));
        context.reset(false);
        let status = context.decompress(input, output, FlushDecompress::Finish);
        let len = crate::bytes::index(context.total_out());
        self.zlib
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(context);
        // A full buffer before the end of the stream is fine.
        status.map_err(|e| broken("zlib").with_source(e))?;
        Ok(len)
    }

    fn unzstd(&self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let idle = self
            .zstd
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut context = idle.unwrap_or_else(DCtx::create);
        let result = decompress_frame(&mut context, input, output);
        self.zstd
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(context);
        result.map_err(|code| {
            let name = zstd_safe::get_error_name(code);
            broken("zstd").with_source(std::io::Error::other(name))
        })
    }
}

/// Returns the deflate stream behind the header of zlib data (RFC 1950).
fn deflate_stream(input: &[u8]) -> Option<&[u8]> {
    const DEFLATE: u8 = 8;
    const WINDOW_BITS_MAX: u8 = 7;
    const PRESET_DICTIONARY: u8 = 0x20;
    let (&[method, flags], stream) = input.split_first_chunk()?;
    let is_deflate = method & 0x0f == DEFLATE && method >> 4 <= WINDOW_BITS_MAX;
    let is_checked = u16::from_be_bytes([method, flags]).is_multiple_of(31);
    (is_deflate && is_checked && flags & PRESET_DICTIONARY == 0).then_some(stream)
}

/// Decompresses the first frame: what follows it in its last sector has no meaning.
fn decompress_frame(
    context: &mut DCtx<'static>,
    input: &[u8],
    output: &mut [u8],
) -> std::result::Result<usize, usize> {
    context.reset(ResetDirective::SessionOnly)?;
    let mut input = InBuffer::around(input);
    let len = output.len();
    let mut output = OutBuffer::around(output);
    loop {
        let (read, written) = (input.pos(), output.pos());
        let left = context.decompress_stream(&mut output, &mut input)?;
        let is_stuck = (input.pos(), output.pos()) == (read, written);
        if left == 0 || output.pos() >= len || is_stuck {
            return Ok(output.pos());
        }
    }
}

fn copy(input: &[u8], output: &mut [u8]) -> usize {
    let len = input.len().min(output.len());
    if let (Some(from), Some(to)) = (input.get(..len), output.get_mut(..len)) {
        to.copy_from_slice(from);
    }
    len
}

/// Returns the error for data that cannot be decompressed.
pub(crate) fn broken(name: &str) -> Error {
    let reason = format!("invalid {name} data in an extent of btrfs");
    Error::new(ErrorKind::Corrupt, reason)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn data() -> Vec<u8> {
        (0..100_000_u32)
            .map(|n| u8::try_from(n / 7 % 251).unwrap())
            .collect()
    }

    fn check(compression: Compression, packed: &[u8]) {
        let decompressor = Decompressor::new(4096);
        for len in [0, 1, 5000, 100_000, 110_000] {
            for _ in 0..2 {
                let mut output = vec![9; len];
                decompressor.run(compression, packed, &mut output).unwrap();
                let mut expected = data();
                expected.resize(len, 0);
                assert!(output == expected, "{compression:?}, {len}");
            }
        }
        let mut output = vec![0; 100_000];
        let mut packed = packed.to_vec();
        let middle = packed.len() / 2;
        packed[..middle].fill(0xff);
        let error = decompressor
            .run(compression, &packed, &mut output)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn zlib_and_zstd_fill_what_is_wanted() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(3));
        encoder.write_all(&data()).unwrap();
        let mut zlib = encoder.finish().unwrap();
        zlib.resize(zlib.len() + 100, 0);
        check(Compression::Zlib, &zlib);
        let mut zstd = zstd::bulk::compress(&data(), 3).unwrap();
        zstd.resize(zstd.len() + 100, 0);
        check(Compression::Zstd, &zstd);
    }

    #[test]
    fn lzo_fills_what_is_wanted() {
        check(Compression::Lzo, &lzo::pack(&data(), 4096));
    }

    #[test]
    fn unknown_compression_is_unsupported() {
        let error = Compression::from_number(4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
