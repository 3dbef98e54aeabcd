//! The server's view of the area that both sides share besides the stream.

use std::io;

/// The alignment, in memory and in length, of transfers to and from the area: a page, which is at
/// least the block size of any disk.
pub(super) const ALIGNMENT: usize = 4096;

/// The host's memory that this side sees, too, for example as a disk.
pub trait BulkArea: Sync {
    /// Fills `to` from the area. The offset, and the address and length of `to`, are multiples of
    /// 4096.
    ///
    /// # Errors
    /// Fails if the area can't be read.
    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;

    /// Writes all of `from` to the area. The offset, and the address and length of `from`, are
    /// multiples of 4096.
    ///
    /// # Errors
    /// Fails if the area can't be written.
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()>;
}

/// A buffer that begins at a multiple of [`ALIGNMENT`], padded to the next multiple.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    bytes: Vec<u8>,
}

impl Aligned {
    /// Returns a buffer of `len` bytes.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        let whole = round_up(len).saturating_add(ALIGNMENT);
        if self.bytes.len() < whole {
            self.bytes.resize(whole, 0);
        }
        let begin = self.aligned_start();
        self.bytes
            .get_mut(begin..begin.saturating_add(len))
            .unwrap_or_default()
    }

    /// Returns the first `len` bytes of the buffer.
    pub(super) fn get(&self, len: usize) -> &[u8] {
        let begin = self.aligned_start();
        self.bytes
            .get(begin..begin.saturating_add(len))
            .unwrap_or_default()
    }

    /// Returns the first `len` bytes and the padding after them.
    pub(super) fn padded(&self, len: usize) -> &[u8] {
        self.get(round_up(len))
    }

    /// Returns a buffer of `len` bytes and the padding after them.
    pub(super) fn padded_room(&mut self, len: usize) -> &mut [u8] {
        self.room(round_up(len))
    }

    fn aligned_start(&self) -> usize {
        let begin = self.bytes.as_ptr().align_offset(ALIGNMENT);
        // At run time, memory can always be aligned.
        begin.min(ALIGNMENT)
    }
}

fn round_up(len: usize) -> usize {
    len.checked_next_multiple_of(ALIGNMENT).unwrap_or(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_aligned_whatever_their_number() {
        let mut aligned = Aligned::default();
        assert!(aligned.get(1).is_empty());
        for len in [1, 4096, 5000, 3, 1 << 20] {
            aligned.room(len).fill(7);
            assert_eq!(aligned.get(len), vec![7; len]);
            let padded = aligned.padded(len);
            assert!(padded.len() >= len && padded.len().is_multiple_of(ALIGNMENT));
            assert!(padded.as_ptr().addr().is_multiple_of(ALIGNMENT));
            assert_eq!(aligned.padded_room(len).len(), aligned.padded(len).len());
        }
    }
}
