//! Writing of an archive in blocks.

use std::io::{self, Write};

use tar::Header;

/// The block size, to which everything in an archive is padded.
pub(super) const BLOCK_BYTES: usize = 512;

/// The record size, to which GNU tar and pax pad an archive ("blocking factor" 20).
const RECORD_BYTES: u64 = 20 * 512;

static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// A writer of archives.
#[derive(Debug)]
pub(super) struct Writer<W> {
    out: W,
    written: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, written: 0 }
    }

    pub(super) fn header(&mut self, header: &Header) -> io::Result<()> {
        self.write(header.as_bytes()).map(|_| ())
    }

    /// Writes all bytes, and returns their number.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.out.write_all(bytes)?;
        let len = bytes.len() as u64;
        self.written += len;
        Ok(len)
    }

    /// Writes zeroes for `missing` bytes, and up to the end of the block.
    pub(super) fn pad(&mut self, missing: u64) -> io::Result<()> {
        let end = (self.written + missing).next_multiple_of(BLOCK_BYTES as u64);
        self.zeroes_to(end)
    }

    fn zeroes_to(&mut self, end: u64) -> io::Result<()> {
        while self.written < end {
            let len = usize::try_from(end - self.written).unwrap_or(usize::MAX);
            self.write(&ZEROES[..len.min(ZEROES.len())])?;
        }
        Ok(())
    }

    /// Ends the archive with two blocks of zeroes, and pads it to the end of the record.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let end = (self.written + 2 * BLOCK_BYTES as u64).next_multiple_of(RECORD_BYTES);
        self.zeroes_to(end)?;
        Ok(self.out)
    }
}
