//! Read-ahead of a device at the other end of a stream: each request costs several switches between
//! threads, and the machine's kernel reads small files one after the other.

use std::collections::VecDeque;

use diskfs_block::bytes::{index, len_u64};

/// The size of a window; a longer read needs none.
const WINDOW_BYTES: u64 = 128 << 10;
/// The number of windows: a kernel reads contents and metadata in turn, in several regions.
const WINDOWS_MAX: usize = 8;
/// The number of reads that are remembered to recognise the next one as their continuation.
const ENDS_MAX: usize = 32;
/// The largest gap between a read and the one that continues it.
const GAP_MAX: u64 = 64 << 10;

/// The bytes that were read ahead, and the ends of the last reads.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    windows: VecDeque<Window>,
    ends: VecDeque<u64>,
}

#[derive(Debug)]
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.offset.saturating_add(len_u64(self.bytes.len()))
    }

    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = index(offset.checked_sub(self.offset)?);
        self.bytes.get(from..)?.get(..len)
    }
}

impl ReadAhead {
    /// Fills `buf` if these bytes were read ahead. Returns true if so.
    pub(super) fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let found = self.windows.iter().position(|window| {
            let bytes = window.get(offset, buf.len());
            bytes.is_some_and(|bytes| {
                buf.copy_from_slice(bytes);
                true
            })
        });
        let Some(position) = found else { return false };
        self.note_end(offset, buf.len());
        // The least recently used window is the first.
        if let Some(window) = self.windows.remove(position) {
            self.windows.push_back(window);
        }
        true
    }

    /// Returns how many bytes to read at `offset` instead of `len`, if the read continues an
    /// earlier one. The device has `size_bytes`.
    pub(super) fn wanted(&mut self, offset: u64, len: usize, size_bytes: u64) -> Option<usize> {
        let continues = |&end: &u64| (end..=end.saturating_add(GAP_MAX)).contains(&offset);
        let is_next = self.ends.iter().any(continues);
        self.note_end(offset, len);
        let wanted = WINDOW_BYTES.min(size_bytes.saturating_sub(offset));
        (is_next && len_u64(len) < wanted).then(|| index(wanted))
    }

    /// Stores bytes that were read ahead.
    pub(super) fn store(&mut self, offset: u64, bytes: Vec<u8>) {
        if self.windows.len() >= WINDOWS_MAX {
            self.windows.pop_front();
        }
        self.windows.push_back(Window { offset, bytes });
    }

    /// Drops the bytes of a range that is written.
    pub(super) fn drop_range(&mut self, offset: u64, len_bytes: u64) {
        let end = offset.saturating_add(len_bytes);
        self.windows
            .retain(|window| window.end() <= offset || end <= window.offset);
    }

    fn note_end(&mut self, offset: u64, len: usize) {
        if self.ends.len() >= ENDS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back(offset.saturating_add(len_u64(len)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_continues_another_is_extended() {
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.wanted(4096, 4096, 1 << 20), None);
        assert_eq!(ahead.wanted(1 << 19, 4096, 1 << 20), None, "elsewhere");
        assert_eq!(ahead.wanted(8192, 4096, 1 << 20), Some(128 << 10));
        assert_eq!(ahead.wanted(16384, 128 << 10, 1 << 20), None, "long enough");
        assert_eq!(
            ahead.wanted(20_000, 10, 30_000),
            Some(10_000),
            "near the end"
        );
    }

    #[test]
    fn what_was_written_is_not_read_from_a_window() {
        let mut ahead = ReadAhead::default();
        let mut buf = [0; 10];
        ahead.store(1000, vec![7; 100]);
        assert!(ahead.read(1090, &mut buf) && buf == [7; 10]);
        assert!(!ahead.read(1091, &mut buf) && !ahead.read(999, &mut buf));
        ahead.drop_range(0, 1000);
        ahead.drop_range(1100, u64::MAX);
        assert!(ahead.read(1000, &mut buf));
        ahead.drop_range(1099, 1);
        assert!(!ahead.read(1000, &mut buf));
        for window in 0..100 {
            ahead.store(window, vec![0; 1]);
        }
        assert_eq!(ahead.windows.len(), WINDOWS_MAX);
    }
}
