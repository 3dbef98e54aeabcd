//! A stream that is addressed like a file.

use std::io::Write;

use diskfs_block::{Error, Result};

use super::pieces::PIECE_BYTES;
use crate::numbers::{to_u64, to_usize};

/// Refuses to write at an offset, which only a file can: a stream writes its units itself.
pub(super) fn refuse_places(offset: u64, _: &[u8]) -> Result<()> {
    Err(Error::invalid("a stream is written in order").at(offset))
}

/// A stream that is written by offsets, which only grow. What lies between two writes is zeroes.
pub(super) struct InOrder<'a> {
    out: &'a mut (dyn Write + Send),
    /// The number of bytes that were written.
    at: u64,
    zeroes: Vec<u8>,
}

impl<'a> InOrder<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Self {
            out,
            at: 0,
            zeroes: vec![0; to_usize(PIECE_BYTES)],
        }
    }

    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset < self.at {
            return refuse_places(offset, bytes);
        }
        self.pad_to(offset)?;
        self.out.write_all(bytes)?;
        self.at = self.at.saturating_add(to_u64(bytes.len()));
        Ok(())
    }

    /// Writes zeroes up to an offset.
    pub(super) fn pad_to(&mut self, end: u64) -> Result<()> {
        while self.at < end {
            let len = end.saturating_sub(self.at).min(to_u64(self.zeroes.len()));
            let zeroes = self.zeroes.get(..to_usize(len)).unwrap_or_default();
            self.out.write_all(zeroes)?;
            self.at = self.at.saturating_add(len);
        }
        Ok(())
    }
}
