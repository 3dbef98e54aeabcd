//! What both ends see besides the stream.

use std::io;

/// What the bytes that go to the area, and those that come from there, are aligned to, in memory and in their
/// number: a page, and as much as a disk's blocks ever are.
pub(super) const ALIGNMENT: usize = 4096;

/// The host's memory that this end sees, too, as a disk for example.
pub trait BulkArea: Sync {
    /// Reads all of `to` from there. Offset, place and length of `to` are multiples of 4096.
    ///
    /// # Errors
    /// When it can't be read.
    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;

    /// Writes all of `from` there. Offset, place and length of `from` are multiples of 4096.
    ///
    /// # Errors
    /// When it can't be written.
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()>;
}

/// Bytes that begin at a multiple of [`ALIGNMENT`], with room up to the next one behind them.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    bytes: Vec<u8>,
}

impl Aligned {
    /// Room for so many.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        let whole = round_up(len).saturating_add(ALIGNMENT);
        if self.bytes.len() < whole {
            self.bytes.resize(whole, 0);
        }
        let begin = self.begin();
        self.bytes
            .get_mut(begin..begin.saturating_add(len))
            .unwrap_or_default()
    }

    /// The first so many of the bytes that there was room for.
    pub(super) fn get(&self, len: usize) -> &[u8] {
        let begin = self.begin();
        self.bytes
            .get(begin..begin.saturating_add(len))
            .unwrap_or_default()
    }

    /// The same with what is behind them up to a whole multiple.
    pub(super) fn padded(&self, len: usize) -> &[u8] {
        self.get(round_up(len))
    }

    /// The same to be filled.
    pub(super) fn padded_room(&mut self, len: usize) -> &mut [u8] {
        self.room(round_up(len))
    }

    fn begin(&self) -> usize {
        let begin = self.bytes.as_ptr().align_offset(ALIGNMENT);
        // Memory of a program at run time can be aligned always.
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
