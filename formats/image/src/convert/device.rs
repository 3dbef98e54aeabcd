//! Copying of a disk to a device: a raw image, a block device, or an image that exists.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use diskfs_block::{BlockRead, BlockWrite, Result};

use super::parallel::for_each;
use super::pieces::{Piece, Pieces, Skipped};
use crate::numbers::{to_u64, to_usize};
use crate::zero_runs::runs;

/// The granularity at which zeroes are found, if none is given, as in QEMU.
pub(super) const SPARSE_BYTES: u64 = 4096;

/// A copy to a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceCopy<'a> {
    pub(super) from: &'a dyn BlockRead,
    pub(super) to: &'a dyn BlockWrite,
    /// True if the target reads as zeroes, so that zeroes need not be written.
    pub(super) is_zeroed: bool,
    /// True if the target has a backing file with everything that the top image of the source does
    /// not store.
    pub(super) is_backed: bool,
    /// The granularity at which zeroes are found, a power of two; `None` to write everything.
    pub(super) sparse_bytes: Option<u64>,
    pub(super) threads: NonZeroUsize,
}

impl DeviceCopy<'_> {
    pub(super) fn run(self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        let skipped = match (self.is_zeroed, self.sparse_bytes) {
            _ if self.is_backed => Skipped::Backed,
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
                self.to.unmap(at, len)?;
            }
            at = at.saturating_add(len);
        }
        Ok(())
    }

    /// Writes a piece of zeroes: as such, or byte by byte if everything is to be stored.
    fn write_zeroes(&self, buffer: &mut Vec<u8>, piece: Piece) -> Result<()> {
        if self.sparse_bytes.is_some() {
            return self.to.unmap(piece.offset, piece.len_bytes);
        }
        buffer.clear();
        buffer.resize(to_usize(piece.len_bytes), 0);
        self.to.write_at(piece.offset, buffer)
    }
}
