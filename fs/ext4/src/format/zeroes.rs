//! Zeroing of a device, except for the parts that read as zeroes already.

use std::ops::Range;

use diskfs_block::BlockWrite;

use crate::error::{Result, device_failed, write_failed};

/// The zeroes of a device that nothing was written to yet.
#[derive(Debug)]
pub(super) struct Zeroes<'a> {
    device: &'a dyn BlockWrite,
    /// A range of bytes that is known to read as zeroes.
    known: Range<u64>,
}

impl<'a> Zeroes<'a> {
    pub(super) const fn new(device: &'a dyn BlockWrite) -> Self {
        Self {
            device,
            known: 0..0,
        }
    }

    /// Uses the caller's knowledge that the whole device reads as zeroes.
    pub(super) fn assume_all(&mut self) {
        self.known = 0..self.device.size_bytes();
    }

    /// Returns true if a range of bytes is known to read as zeroes without reading it.
    pub(super) fn covers(&mut self, range: Range<u64>) -> Result<bool> {
        let mut from = range.start;
        while from < range.end {
            if self.known.contains(&from) {
                from = self.known.end;
                continue;
            }
            let extent = self.device.extent_at(from).map_err(device_failed)?;
            if !extent.kind.reads_as_zeroes() {
                return Ok(false);
            }
            self.known = from..from.saturating_add(extent.len_bytes.max(1));
        }
        Ok(true)
    }

    /// Makes a range of bytes read as zeroes; writes only where it does not yet.
    pub(super) fn make(&mut self, range: Range<u64>) -> Result<()> {
        let mut from = range.start;
        while from < range.end {
            let extent = self.device.extent_at(from).map_err(device_failed)?;
            let end = from.saturating_add(extent.len_bytes.max(1)).min(range.end);
            if !self.covers(from..end)? {
                let len_bytes = end.saturating_sub(from);
                let zeroed = self.device.write_zeroes(from, len_bytes);
                zeroed.map_err(write_failed)?;
            }
            from = end;
        }
        Ok(())
    }
}
