//! Decompression of one block.
//!
//! The output is bounded by the buffer of the caller, and XZ's dictionary by [`XZ_MEMORY_KIB`].

use std::cell::RefCell;
use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::{LzmaReader, XzReader};
use zstd::bulk::Decompressor;

use crate::compressor::Compressor;

/// The memory limit of LZMA and XZ. Dictionaries are at most as large as a block (1 MiB); the
/// decoder's tables need less than 128 KiB.
const XZ_MEMORY_KIB: u32 = 2 << 10;

/// The reason why a block can't be decompressed.
type Failure = Box<dyn std::error::Error + Send + Sync>;

thread_local! {
    /// The decoders of this thread, since each has tables that are costly to allocate.
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(true));
    static ZSTD: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::default());
}

/// Decompresses `input` into `output`, and returns the number of bytes.
///
/// # Errors
/// Fails if the input is invalid, or has more bytes than `output`.
pub(crate) fn decompress(
    compressor: Compressor,
    input: &[u8],
    output: &mut [u8],
) -> Result<usize, Failure> {
    match compressor {
        Compressor::Gzip => inflate(input, output),
        Compressor::Lzma => {
            let reader = LzmaReader::new_mem_limit(input, XZ_MEMORY_KIB, None);
            read_all(reader?, output)
        }
        Compressor::Lzo => Ok(lzokay::decompress::decompress(input, output)?),
        Compressor::Xz => read_all(XzReader::new_mem_limit(input, false, XZ_MEMORY_KIB), output),
        Compressor::Lz4 => Ok(lz4_flex::block::decompress_into(input, output)?),
        Compressor::Zstd => {
            ZSTD.with_borrow_mut(|decoder| Ok(decoder.decompress_to_buffer(input, output)?))
        }
    }
}

fn inflate(input: &[u8], output: &mut [u8]) -> Result<usize, Failure> {
    INFLATE.with_borrow_mut(|decoder| {
        decoder.reset(true);
        match decoder.decompress(input, output, FlushDecompress::Finish)? {
            Status::StreamEnd => Ok(usize::try_from(decoder.total_out())?),
            _ => Err("the zlib stream is cut or too long".into()),
        }
    })
}

fn read_all(mut reader: impl Read, output: &mut [u8]) -> Result<usize, Failure> {
    let mut done = 0_usize;
    loop {
        let rest = output.get_mut(done..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        match reader.read(rest)? {
            0 => return Ok(done),
            len => done = done.saturating_add(len),
        }
    }
    match reader.read(&mut [0])? {
        0 => Ok(done),
        _ => Err("the stream has more bytes than expected".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A block never has more bytes than its buffer, and fewer are counted.
    #[test]
    fn the_output_is_bounded_by_the_buffer() {
        let text = vec![7; 100_000];
        for (compressor, packed) in [
            (Compressor::Gzip, zlib(&text)),
            (Compressor::Lz4, lz4_flex::block::compress(&text)),
            (Compressor::Zstd, zstd::bulk::compress(&text, 3).unwrap()),
        ] {
            let name = compressor.name();
            let mut room = vec![0; text.len() + 1];
            let len = decompress(compressor, &packed, &mut room).unwrap();
            assert!(room[..len] == text, "{name}");
            room.truncate(text.len() - 1);
            assert!(
                decompress(compressor, &packed, &mut room).is_err(),
                "{name}"
            );
            let cut = &packed[..packed.len() - 1];
            room.resize(text.len(), 0);
            assert!(decompress(compressor, cut, &mut room).is_err(), "{name}");
        }
    }
}
