//! A window of a device in memory, with read-ahead for sequential reads.

use diskfs_block::bytes::{index, len_u64, part};
use diskfs_block::{BlockRead, Error, Result, check_bounds};

/// The maximum number of bytes to read ahead. Pages of one header are nearly always consecutive.
const MAX_AHEAD_BYTES: usize = 64 << 10;

/// A reader of a device that keeps the last [`MAX_AHEAD_BYTES`] or so in memory.
#[derive(Debug)]
pub(crate) struct Window<'d> {
    device: &'d dyn BlockRead,
    start: u64,
    bytes: Vec<u8>,
    /// The minimum number of bytes to read.
    unit_bytes: usize,
    ahead_bytes: usize,
}

impl<'d> Window<'d> {
    /// Returns an empty window. Each read has at least `unit_bytes`, if the device is long enough.
    pub(crate) fn new(device: &'d dyn BlockRead, unit_bytes: usize) -> Self {
        Self {
            device,
            start: 0,
            bytes: Vec::new(),
            unit_bytes,
            ahead_bytes: unit_bytes,
        }
    }

    /// Returns `len` bytes at `offset`.
    ///
    /// # Errors
    /// `Corrupt` if the device is shorter; the errors of the device.
    pub(crate) fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if !self.contains(offset, len) {
            self.fill(offset, len)?;
        }
        let at = index(offset.saturating_sub(self.start));
        part(&self.bytes, at, len).ok_or_else(|| past_end(offset))
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(len_u64(self.bytes.len()))
    }

    fn contains(&self, offset: u64, len: usize) -> bool {
        offset >= self.start && offset.saturating_add(len_u64(len)) <= self.end()
    }

    fn fill(&mut self, offset: u64, len: usize) -> Result<()> {
        let size_bytes = self.device.size_bytes();
        check_bounds(offset, len_u64(len), size_bytes).map_err(|_| past_end(offset))?;
        let goes_on = (self.start..=self.end()).contains(&offset) && !self.bytes.is_empty();
        self.ahead_bytes = if goes_on {
            self.ahead_bytes.saturating_mul(2).min(MAX_AHEAD_BYTES)
        } else {
            self.unit_bytes
        };
        let wanted = self.ahead_bytes.max(len);
        let left = index(size_bytes.saturating_sub(offset));
        self.start = offset;
        self.bytes.clear();
        self.bytes.resize(wanted.min(left), 0);
        let read = self.device.read_at(offset, &mut self.bytes);
        if read.is_err() {
            // The buffer is undefined after a failed read.
            self.bytes.clear();
        }
        read
    }
}

fn past_end(offset: u64) -> Error {
    Error::corrupt("the file ends early").at(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_block::{Counting, Memory};
    use std::sync::Arc;

    #[test]
    fn what_is_read_in_order_is_read_ahead() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let device = Counting::new(Arc::new(Memory::new(bytes.clone())));
        let mut window = Window::new(&device, 512);
        for offset in (0..200_000 - 512).step_by(512) {
            let expected = &bytes[offset..offset + 512];
            assert_eq!(window.get(offset as u64, 512).unwrap(), expected);
        }
        assert!(device.counts().reads < 12, "{:?}", device.counts());
        assert_eq!(window.get(100, 1000).unwrap(), &bytes[100..1100]);
        assert!(window.get(199_999, 2).is_err());
        assert!(window.get(u64::MAX, 2).is_err());
    }

    #[test]
    fn what_is_read_out_of_order_is_not() {
        let device = Counting::new(Arc::new(Memory::new(vec![0; 200_000])));
        let mut window = Window::new(&device, 512);
        for offset in (0..100).map(|n| n * 7919 % 199_000) {
            window.get(offset, 512).unwrap();
        }
        assert!(device.counts().read_bytes < 100 * 2048);
    }
}
