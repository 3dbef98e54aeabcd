//! Decompression of files of guests: kernels, initramfs images, modules, rotated logs.
//!
//! Streams are decompressed as they are read. This module does not limit the decompressed size; the
//! caller must.

use std::io::{self, BufRead, Read};

use diskfs_disk::{Error, ErrorKind, Result};

/// The memory limit of decompression in KiB: `xz -9` needs 64 MiB, and larger needs do not occur in
/// practice.
const MEMORY_KIB: u32 = 128 << 10;

/// The limit on the window of zstd, as a logarithm: the default limit of zstd(1).
const WINDOW_LOG: u32 = 27;

/// The largest decompressed size of a block in LZ4's legacy frame (LZ4 frame format description,
/// "Legacy frame").
const LZ4_BLOCK_BYTES: usize = 8 << 20;

/// The magic number of an LZ4 frame (LZ4 frame format description, "Magic Number").
const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// The part of a file that is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// The first stream; other data may follow it.
    First,
    /// The whole file: concatenated streams of one text.
    All,
}

/// Returns true if a file with this start is compressed in a supported format.
pub fn is_packed(start: &[u8]) -> bool {
    let known: [&[u8]; 5] = [
        &[0x1f, 0x8b],
        b"\xfd7zXZ\0",
        &[0x28, 0xb5, 0x2f, 0xfd],
        &[0x02, 0x21, 0x4c, 0x18],
        &LZ4_FRAME,
    ];
    known.iter().any(|magic| start.starts_with(magic))
}

/// Decompresses a stream in the format that its first bytes show; returns `None` if that is not a
/// supported format.
///
/// # Errors
/// `Io`. Reading from the returned stream fails with `InvalidData` if the stream is damaged.
pub fn stream<'r>(
    mut packed: impl BufRead + 'r,
    streams: Streams,
) -> Result<Option<Box<dyn Read + 'r>>> {
    let start = packed.fill_buf()?;
    Ok(match (start, streams) {
        ([0x1f, 0x8b, ..], Streams::First) => {
            Some(Box::new(flate2::bufread::GzDecoder::new(packed)))
        }
        ([0x1f, 0x8b, ..], Streams::All) => {
            Some(Box::new(flate2::bufread::MultiGzDecoder::new(packed)))
        }
        ([0xfd, b'7', b'z', b'X', b'Z', 0, ..], _) => {
            let goes_on = streams == Streams::All;
            let decoder = lzma_rust2::XzReader::new_mem_limit(packed, goes_on, MEMORY_KIB);
            Some(Box::new(decoder))
        }
        ([0x28, 0xb5, 0x2f, 0xfd, ..], _) => {
            let mut decoder = zstd::Decoder::with_buffer(packed)?;
            decoder.window_log_max(WINDOW_LOG)?;
            Some(match streams {
                Streams::First => Box::new(decoder.single_frame()),
                Streams::All => Box::new(decoder),
            })
        }
        ([0x02, 0x21, 0x4c, 0x18, ..], _) => {
            packed.consume(4);
            Some(Box::new(LegacyLz4::new(packed)))
        }
        ([0x04, 0x22, 0x4d, 0x18, ..], _) => {
            Some(Box::new(lz4_flex::frame::FrameDecoder::new(packed)))
        }
        _ => None,
    })
}

/// A reader that fails after a number of bytes: a few kilobytes can decompress to any size.
#[derive(Debug)]
pub struct Limited<R> {
    reader: R,
    left: u64,
    limit_bytes: u64,
}

impl<R> Limited<R> {
    /// Returns a reader with a limit.
    pub fn new(reader: R, limit_bytes: u64) -> Self {
        Self {
            reader,
            left: limit_bytes,
            limit_bytes,
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buf)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let reason = format!(
                "the decompressed data is too large, at most {} bytes",
                self.limit_bytes
            );
            io::Error::other(Error::new(ErrorKind::Unsupported, reason))
        })?;
        Ok(read)
    }
}

/// Returns the error for an unsupported compression format.
pub fn unknown() -> Error {
    let reason = "unknown compression format; known: gzip, xz, lz4, zstd";
    Error::new(ErrorKind::Unsupported, reason)
}

/// A stream of LZ4 blocks, each after its length. A block that is shorter than its length ends the
/// stream: other data follows.
struct LegacyLz4<R> {
    packed: R,
    block: io::Cursor<Vec<u8>>,
}

impl<R: Read> LegacyLz4<R> {
    fn new(packed: R) -> Self {
        let block = io::Cursor::default();
        Self { packed, block }
    }

    /// Reads the next block; an empty one at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut len = [0; 4];
        if read_up_to(&mut self.packed, &mut len)? < len.len() {
            return Ok(Vec::new());
        }
        let len = u32::from_le_bytes(len);
        // A compressed incompressible block is slightly larger than its contents.
        let most = lz4_flex::block::get_maximum_output_size(LZ4_BLOCK_BYTES);
        if usize::try_from(len).is_ok_and(|len| len > most) {
            return Ok(Vec::new());
        }
        let mut block = Vec::new();
        (&mut self.packed)
            .take(len.into())
            .read_to_end(&mut block)?;
        if block.len() as u64 != u64::from(len) {
            return Ok(Vec::new());
        }
        lz4_flex::block::decompress(&block, LZ4_BLOCK_BYTES)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl<R: Read> Read for LegacyLz4<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.block.position() == self.block.get_ref().len() as u64 {
            self.block = io::Cursor::new(self.next()?);
        }
        self.block.read(buf)
    }
}

/// Reads until `buf` is full or the end is reached. Returns the number of bytes.
pub fn read_up_to(reader: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
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

    #[test]
    fn what_is_more_than_there_may_be_fails() {
        let mut plain = Vec::new();
        assert!(Limited::new(&[0; 9][..], 9).read_to_end(&mut plain).is_ok());
        assert!(
            Limited::new(&[0; 9][..], 8)
                .read_to_end(&mut plain)
                .is_err()
        );
    }
}
