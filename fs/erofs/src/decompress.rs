//! Decompression of extents.
//!
//! The output is bounded by the extent, which has at most 12 MiB.

use std::cell::RefCell;
use std::io::Read;

use diskfs_block::bytes::index;
use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::LzmaReader;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::error::{Result, corrupt};
use crate::extent::{Algorithm, Encoded, EncodedPlace};
use crate::features::INCOMPAT_LZ4_0PADDING;
use crate::lz4::decompress_start;
use crate::volume::Volume;

/// The maximum dictionary of `MicroLZMA`, as in Linux. The decoder allocates no more than the
/// extent.
const LZMA_DICTIONARY_BYTES: u32 = 8 << 20;

/// The maximum window of zstd: that of 16 MiB is larger than any extent.
const ZSTD_WINDOW_LOG_MAX: u32 = 24;

/// The reason why an extent can't be decompressed.
type Failure = Box<dyn std::error::Error + Send + Sync>;

thread_local! {
    /// The decoders of this thread, since each has tables that are costly to allocate.
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
    static ZSTD: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Reads a whole extent into `out`, which has its length.
pub(crate) fn read(volume: &Volume, extent: &Encoded, out: &mut [u8]) -> Result<()> {
    let mut stored = vec![0; index(extent.stored_bytes)];
    match extent.place {
        EncodedPlace::Device(at) => volume.devices.read_at(0, at, &mut stored)?,
        EncodedPlace::Inline(place) => volume.read_metadata(place, &mut stored)?,
    }
    let is_padded = volume
        .superblock
        .features
        .has_incompat(INCOMPAT_LZ4_0PADDING);
    decode(
        extent,
        &stored,
        is_padded,
        volume.superblock.block_bytes(),
        out,
    )
    .map_err(|error| {
        let reason = format!(
            "invalid extent: it can't be decoded as {:?}",
            extent.algorithm
        );
        corrupt(reason, extent.place.at()).with_source(error)
    })
}

fn decode(
    extent: &Encoded,
    stored: &[u8],
    is_padded: bool,
    block_bytes: u64,
    out: &mut [u8],
) -> std::result::Result<(), Failure> {
    let zeroes = stored.iter().take_while(|byte| **byte == 0).count();
    let packed = stored.get(zeroes..).unwrap_or_default();
    match extent.algorithm {
        Algorithm::Shifted => {
            let start = stored.get(..out.len()).ok_or("too few bytes")?;
            out.copy_from_slice(start);
            Ok(())
        }
        Algorithm::Interlaced => rotate(extent.start, stored, block_bytes, out),
        Algorithm::Lz4 if !is_padded => {
            decompress_start(stored, out).ok_or_else(|| "invalid LZ4 block".into())
        }
        Algorithm::Lz4 if extent.is_partial => {
            decompress_start(packed, out).ok_or_else(|| "invalid LZ4 block".into())
        }
        Algorithm::Lz4 => {
            let len = lz4_flex::block::decompress_into(packed, out)?;
            check_len(len, out)
        }
        Algorithm::Lzma => lzma(packed, out),
        Algorithm::Deflate => inflate(packed, extent.is_partial, out),
        Algorithm::Zstd => unzstd(packed, out),
    }
}

fn check_len(len: usize, out: &[u8]) -> std::result::Result<(), Failure> {
    if len == out.len() {
        return Ok(());
    }
    Err(format!("{len} bytes, expected {}", out.len()).into())
}

/// Copies contents that are not compressed, but of which each byte has its offset in a block: the
/// first of them are at the end of the stored bytes.
fn rotate(
    start: u64,
    stored: &[u8],
    block_bytes: u64,
    out: &mut [u8],
) -> std::result::Result<(), Failure> {
    let in_block = start & block_bytes.wrapping_sub(1);
    let first = index(block_bytes.saturating_sub(in_block));
    let from = stored.len().checked_sub(first).ok_or("too few bytes")?;
    let (left, right) = out.split_at_mut(first.min(out.len()));
    let end = stored.get(from..).and_then(|end| end.get(..left.len()));
    left.copy_from_slice(end.ok_or("too few bytes")?);
    right.copy_from_slice(stored.get(..right.len()).ok_or("too few bytes")?);
    Ok(())
}

/// Decompresses `MicroLZMA`: LZMA whose first byte, which is always zero, is replaced by the
/// inverted properties.
fn lzma(packed: &[u8], out: &mut [u8]) -> std::result::Result<(), Failure> {
    let (properties, rest) = packed.split_first().ok_or("it is empty")?;
    let len = diskfs_block::len_of(out);
    let stream = [0_u8].as_slice().chain(rest);
    let mut reader =
        LzmaReader::new_with_props(stream, len, !properties, LZMA_DICTIONARY_BYTES, None)?;
    reader.read_exact(out)?;
    Ok(())
}

fn inflate(packed: &[u8], is_partial: bool, out: &mut [u8]) -> std::result::Result<(), Failure> {
    INFLATE.with_borrow_mut(|decoder| {
        decoder.reset(false);
        let status = decoder.decompress(packed, out, FlushDecompress::Finish)?;
        if status != Status::StreamEnd && !is_partial {
            return Err("the stream is cut or too long".into());
        }
        check_len(usize::try_from(decoder.total_out())?, out)
    })
}

fn unzstd(packed: &[u8], out: &mut [u8]) -> std::result::Result<(), Failure> {
    let name = |code| zstd::zstd_safe::get_error_name(code);
    ZSTD.with_borrow_mut(|context| {
        context.reset(ResetDirective::SessionOnly).map_err(name)?;
        let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
        context.set_parameter(window).map_err(name)?;
        let len = out.len();
        let mut input = InBuffer::around(packed);
        let mut output = OutBuffer::around(out);
        loop {
            let before = (input.pos(), output.pos());
            let left = context.decompress_stream(&mut output, &mut input);
            let is_done = left.map_err(name)? == 0 || output.pos() == len;
            if is_done || before == (input.pos(), output.pos()) {
                break;
            }
        }
        if output.pos() == len {
            return Ok(());
        }
        Err(format!("{} bytes, expected {len}", output.pos()).into())
    })
}
