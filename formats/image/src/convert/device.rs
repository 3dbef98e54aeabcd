//! Copying of a disk to a device: a raw image, a block device, or an image that exists.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, BlockWrite, Result};

use super::parallel::for_each;
use super::pieces::{Piece, Pieces, Skipped};
use crate::numbers::{to_u64, to_usize};

/// The granularity at which zeroes are found, if none is given, as in QEMU.
pub(super) const SPARSE_BYTES: u64 = 4096;

/// A copy to a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceCopy<'a> {
    pub(super) from: &'a dyn BlockRead,
    pub(super) to: &'a dyn BlockWrite,
    /// True if the target reads as zeroes, so that zeroes need not be written.
    pub(super) is_zeroed: bool,
    /// The granularity at which zeroes are found, a power of two; `None` to write everything.
    pub(super) sparse_bytes: Option<u64>,
    pub(super) threads: NonZeroUsize,
}

impl DeviceCopy<'_> {
    pub(super) fn run(self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        let skipped = match (self.is_zeroed, self.sparse_bytes) {
            (true, Some(_)) => Skipped::Zeroes,
            _ => Skipped::None,
        };
        let unit_bytes = self.sparse_bytes.unwrap_or(SPARSE_BYTES);
        let mut pieces = Pieces::new(self.from, unit_bytes, skipped);
        if self.sparse_bytes.is_none() {
            pieces = pieces.with_small_zeroes();
        }
        for_each(
            pieces,
            self.threads,
            || Ok(Vec::new()),
            |buffer, piece, _| self.copy(buffer, piece),
            progress,
        )
    }

    fn copy(&self, buffer: &mut Vec<u8>, piece: Piece) -> Result<()> {
        if piece.is_zero {
            return self.write_zeroes(buffer, piece);
        }
        buffer.resize(to_usize(piece.len_bytes), 0);
        self.from.read_at(piece.offset, buffer)?;
        let Some(unit) = self.sparse_bytes else {
            return self.to.write_at(piece.offset, buffer);
        };
        let unit = to_usize(unit);
        let mut at = piece.offset;
        for run in runs(buffer, unit) {
            let len = to_u64(run.bytes.len());
            if !run.is_zero {
                self.to.write_at(at, run.bytes)?;
            } else if !self.is_zeroed {
                self.to.write_zeroes(at, len)?;
            }
            at = at.saturating_add(len);
        }
        Ok(())
    }

    /// Writes a piece of zeroes: as such, or byte by byte if everything is to be stored.
    fn write_zeroes(&self, buffer: &mut Vec<u8>, piece: Piece) -> Result<()> {
        if self.sparse_bytes.is_some() {
            return self.to.write_zeroes(piece.offset, piece.len_bytes);
        }
        buffer.clear();
        buffer.resize(to_usize(piece.len_bytes), 0);
        self.to.write_at(piece.offset, buffer)
    }
}

/// Consecutive units of a buffer that are all zero, or all not.
pub(super) struct Run<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_zero: bool,
}

/// Divides a buffer into runs of units.
pub(super) fn runs(buffer: &[u8], unit: usize) -> impl Iterator<Item = Run<'_>> {
    let mut rest = buffer;
    std::iter::from_fn(move || {
        let mut units = rest.chunks(unit.max(1));
        let first = units.next()?;
        let is_zero_run = is_zero(first);
        let same = units.take_while(|unit| is_zero(unit) == is_zero_run);
        let len = same.fold(first.len(), |len, unit| len.saturating_add(unit.len()));
        let (bytes, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(Run {
            bytes,
            is_zero: is_zero_run,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_maximal_and_cover_the_buffer() {
        let mut buffer = vec![0; 10_000];
        buffer[5000] = 1;
        buffer[9999] = 1;
        let runs: Vec<_> = runs(&buffer, 1000)
            .map(|run| (run.bytes.len(), run.is_zero))
            .collect();
        let expected = [(5000, true), (1000, false), (3000, true), (1000, false)];
        assert_eq!(runs, expected);
    }
}
