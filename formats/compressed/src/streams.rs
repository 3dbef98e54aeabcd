//! Streams of compressed data, decompressed as they are read.
//!
//! Nothing here limits the decompressed size; the caller must.

use std::io::{self, BufRead, Read};

use crate::codec::{Codec, MEMORY_KIB};
use crate::legacy_lz4::LegacyLz4;

/// The limit on the window of zstd, as a logarithm: the default limit of zstd(1).
const WINDOW_LOG: u32 = 27;

/// The part of a file that is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// The first stream; other data may follow it.
    First,
    /// The whole file: concatenated streams of one text.
    All,
}

/// Returns true if a file with this start is compressed in a supported format.
pub fn is_compressed(start: &[u8]) -> bool {
    Codec::of(start).is_some()
}

/// Decompresses a stream in the format that its first bytes show; returns `None` if that is not a
/// supported format.
///
/// # Errors
/// Those of reading. Reading from the returned stream fails with `InvalidData` if the stream is
/// damaged.
pub fn stream<'r>(
    mut packed: impl BufRead + 'r,
    streams: Streams,
) -> io::Result<Option<Box<dyn Read + 'r>>> {
    let Some(codec) = Codec::of(packed.fill_buf()?) else {
        return Ok(None);
    };
    Ok(Some(match (codec, streams) {
        (Codec::Gzip, Streams::First) => Box::new(flate2::bufread::GzDecoder::new(packed)),
        (Codec::Gzip, Streams::All) => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        (Codec::Bzip2, Streams::First) => Box::new(bzip2::bufread::BzDecoder::new(packed)),
        (Codec::Bzip2, Streams::All) => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
        (Codec::Xz, _) => {
            let goes_on = streams == Streams::All;
            let decoder = lzma_rust2::XzReader::new_mem_limit(packed, goes_on, MEMORY_KIB);
            Box::new(decoder)
        }
        (Codec::Zstd, _) => {
            let mut decoder = zstd::Decoder::with_buffer(packed)?;
            decoder.window_log_max(WINDOW_LOG)?;
            match streams {
                Streams::First => Box::new(decoder.single_frame()),
                Streams::All => Box::new(decoder),
            }
        }
        (Codec::LegacyLz4, _) => {
            packed.consume(4);
            Box::new(LegacyLz4::new(packed))
        }
        (Codec::Lz4, _) => Box::new(lz4_flex::frame::FrameDecoder::new(packed)),
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
        let mut plain = Vec::new();
        let reader = stream(packed, Streams::First).unwrap()?;
        reader.take(1 << 20).read_to_end(&mut plain).unwrap();
        Some(plain)
    }

    #[test]
    fn each_way_by_what_it_begins_with() {
        let plain = b"contents ".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        assert_eq!(unpacked(&gzip.finish().unwrap()).unwrap(), plain);
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(&plain).unwrap();
        assert_eq!(unpacked(&bzip2.finish().unwrap()).unwrap(), plain);
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        assert_eq!(unpacked(&zstd).unwrap(), plain);
        let mut lz4 = 0x184c_2102_u32.to_le_bytes().to_vec();
        for part in plain.chunks(5000) {
            let block = lz4_flex::block::compress(part);
            lz4.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
            lz4.extend(block);
        }
        lz4.extend([1, 2, 3]);
        assert_eq!(unpacked(&lz4).unwrap(), plain);
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(&plain).unwrap();
        assert_eq!(unpacked(&frame.finish().unwrap()).unwrap(), plain);
        assert_eq!(unpacked(&plain), None);
        assert_eq!(unpacked(b""), None);
    }

    #[test]
    fn what_lies_of_its_size_takes_no_memory() {
        let mut lz4 = 0x184c_2102_u32.to_le_bytes().to_vec();
        lz4.extend(u32::MAX.to_le_bytes());
        lz4.extend([0; 100]);
        assert_eq!(unpacked(&lz4).unwrap(), b"");
    }

    #[test]
    fn streams_one_behind_the_other_are_one_text() {
        let gzip = |text: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(text).unwrap();
            gzip.finish().unwrap()
        };
        let both = [gzip(b"one "), gzip(b"two")].concat();
        let read = |streams| {
            let mut plain = String::new();
            let mut reader = stream(&both[..], streams).unwrap().unwrap();
            reader.read_to_string(&mut plain).unwrap();
            plain
        };
        assert_eq!(read(Streams::First), "one ");
        assert_eq!(read(Streams::All), "one two");
    }
}
