//! LZ4's legacy frames, which Linux uses for kernels and initramfs images.

use std::io::{self, Read};

/// The largest decompressed size of a block (LZ4 frame format description, "Legacy frame").
const BLOCK_BYTES: usize = 8 << 20;

/// A stream of LZ4 blocks, each after its length. A block that is shorter than its length ends the
/// stream: other data follows.
pub(crate) struct LegacyLz4<R> {
    packed: R,
    block: io::Cursor<Vec<u8>>,
}

impl<R: Read> LegacyLz4<R> {
    /// Creates a reader of the blocks after the magic number.
    pub(crate) fn new(packed: R) -> Self {
        let block = io::Cursor::default();
        Self { packed, block }
    }

    /// Reads the next block; an empty one at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut len = Vec::new();
        (&mut self.packed).take(4).read_to_end(&mut len)?;
        let Ok(len) = <[u8; 4]>::try_from(len) else {
            return Ok(Vec::new());
        };
        let len = u32::from_le_bytes(len);
        // A compressed incompressible block is slightly larger than its contents.
        let most = lz4_flex::block::get_maximum_output_size(BLOCK_BYTES);
        if usize::try_from(len).is_ok_and(|len| len > most) {
            return Ok(Vec::new());
        }
        let mut block = Vec::new();
        (&mut self.packed)
            .take(len.into())
            .read_to_end(&mut block)?;
        if u32::try_from(block.len()) != Ok(len) {
            return Ok(Vec::new());
        }
        lz4_flex::block::decompress(&block, BLOCK_BYTES)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl<R: Read> Read for LegacyLz4<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.block.read(buf)?;
        if read > 0 || buf.is_empty() {
            return Ok(read);
        }
        self.block = io::Cursor::new(self.next()?);
        self.block.read(buf)
    }
}
