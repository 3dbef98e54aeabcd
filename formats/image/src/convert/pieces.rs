//! The division of a disk into pieces to copy.

use diskfs_block::{BlockRead, Extent, ExtentKind, Result};

/// The largest piece. It bounds the memory of a thread, and how long others wait for its turn.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// The largest piece of zeroes. It bounds the time until an operation can be cancelled.
const ZEROES_BYTES: u64 = 256 << 20;

/// A part of a disk to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The offset in the disk in bytes.
    pub(super) offset: u64,
    /// The length in bytes: of data, [`PIECE_BYTES`] or one unit at most.
    pub(super) len_bytes: u64,
    /// True if the piece reads as zeroes.
    pub(super) is_zero: bool,
}

/// The parts of a disk that are no pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skipped {
    /// Everything that is known to read as zeroes: the target reads as zeroes there.
    Zeroes,
    /// Everything that the top image does not store: the target's backing file has it.
    Backed,
    /// No part: every byte of the target must be written.
    None,
}

/// The pieces of a disk, in order. Each begins at a multiple of the unit, and ends at one or at the
/// end of the disk.
pub(super) struct Pieces<'a> {
    from: &'a dyn BlockRead,
    unit_bytes: u64,
    skipped: Skipped,
    zeroes_max: u64,
    at: u64,
    count: u64,
    /// The run that was asked for last, with its offset. Some hosts (tmpfs) need time by its length
    /// to find its end, so it is asked for once, not for each piece.
    last: Option<(u64, Extent)>,
}

impl<'a> Pieces<'a> {
    /// Divides a disk. The unit is a power of two of at most [`PIECE_BYTES`] * 2 bytes.
    pub(super) fn new(from: &'a dyn BlockRead, unit_bytes: u64, skipped: Skipped) -> Self {
        Self {
            from,
            unit_bytes,
            skipped,
            zeroes_max: ZEROES_BYTES,
            at: 0,
            count: 0,
            last: None,
        }
    }

    /// Makes pieces of zeroes as small as those of data, for a target that stores them.
    pub(super) fn with_small_zeroes(self) -> Self {
        Self {
            zeroes_max: PIECE_BYTES.max(self.unit_bytes),
            ..self
        }
    }

    /// Returns the offset that has been reached.
    pub(super) const fn position(&self) -> u64 {
        self.at
    }

    /// Returns the number of pieces so far, which is the number of the next one.
    pub(super) const fn number_of_next(&self) -> u64 {
        self.count
    }

    /// Returns the run from `at` on, which ends at a multiple of the unit or at the end of the disk.
    /// A unit of which a part has data is data.
    fn run_at(&mut self, at: u64) -> Result<Extent> {
        let extent = self.extent_at(at)?;
        let left = self.from.size_bytes().saturating_sub(at);
        let whole_units = extent.len_bytes & !self.unit_bytes.saturating_sub(1);
        let (kind, len_bytes) = match extent.kind {
            kind if extent.len_bytes >= left => (kind, left),
            kind if whole_units == extent.len_bytes => (kind, whole_units),
            ExtentKind::Data => (
                ExtentKind::Data,
                whole_units.saturating_add(self.unit_bytes),
            ),
            kind if whole_units > 0 => (kind, whole_units),
            _ => (ExtentKind::Data, self.unit_bytes),
        };
        Ok(Extent {
            len_bytes: len_bytes.min(left),
            kind,
        })
    }

    /// Returns the source's own run from `at` on.
    fn extent_at(&mut self, at: u64) -> Result<Extent> {
        if let Some((start, last)) = &self.last
            && let Some(passed) = at.checked_sub(*start).filter(|it| *it < last.len_bytes)
        {
            return Ok(Extent {
                len_bytes: last.len_bytes.saturating_sub(passed),
                kind: last.kind,
            });
        }
        let extent = match self.skipped {
            Skipped::Backed => self.from.stored_at(at)?,
            Skipped::Zeroes | Skipped::None => self.from.extent_at(at)?,
        };
        self.last = Some((at, extent));
        Ok(extent)
    }

    /// Returns true if zeroes of this kind are no piece.
    const fn is_skipped(&self, kind: ExtentKind) -> bool {
        match self.skipped {
            Skipped::Zeroes => true,
            Skipped::Backed => matches!(kind, ExtentKind::Unallocated),
            Skipped::None => false,
        }
    }

    fn find(&mut self) -> Result<Option<Piece>> {
        let size = self.from.size_bytes();
        while self.at < size {
            let offset = self.at;
            let run = self.run_at(offset)?;
            let is_zero = run.kind.reads_as_zeroes();
            let is_skipped = is_zero && self.is_skipped(run.kind);
            let len_bytes = match (is_zero, is_skipped) {
                (false, _) => self.data_len(offset, run.len_bytes)?,
                (true, false) => run.len_bytes.min(self.zeroes_max),
                (true, true) => run.len_bytes,
            };
            self.at = offset.saturating_add(len_bytes);
            if !is_skipped {
                return Ok(Some(Piece {
                    offset,
                    len_bytes,
                    is_zero,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the length of the piece of data at `offset`, of which the first `len_bytes` are known
    /// to be data.
    fn data_len(&mut self, offset: u64, mut len_bytes: u64) -> Result<u64> {
        let left = self.from.size_bytes().saturating_sub(offset);
        let max = PIECE_BYTES.max(self.unit_bytes).min(left);
        while len_bytes < max {
            let next = self.run_at(offset.saturating_add(len_bytes))?;
            if next.kind != ExtentKind::Data {
                break;
            }
            len_bytes = len_bytes.saturating_add(next.len_bytes);
        }
        Ok(len_bytes.min(max))
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find();
        if let Ok(Some(_)) = &found {
            self.count = self.count.saturating_add(1);
        }
        found.transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use diskfs_block::{Overlay, Zeroes};

    use super::*;

    fn pieces(pieces: Pieces<'_>) -> Vec<Piece> {
        pieces.map(Result::unwrap).collect()
    }

    /// A device that counts how often it is asked for runs.
    #[derive(Debug)]
    struct Asked(Zeroes, AtomicU64);

    impl BlockRead for Asked {
        fn size_bytes(&self) -> u64 {
            self.0.size_bytes()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.0.read_at(offset, buf)
        }

        fn extent_at(&self, offset: u64) -> Result<Extent> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(Extent {
                len_bytes: self.size_bytes() - offset,
                kind: ExtentKind::Data,
            })
        }
    }

    #[test]
    fn the_end_of_a_run_is_asked_for_once() {
        let device = Asked(Zeroes::new(64 << 20), AtomicU64::new(0));
        let all = pieces(Pieces::new(&device, 4096, Skipped::Zeroes));
        assert_eq!((all.len(), device.1.into_inner()), (64, 1));
    }

    /// An image can declare any number of zeroes; nothing may depend on it.
    #[test]
    fn pieces_are_bounded_and_cover_what_is_not_skipped() {
        let size = 600 << 20;
        let zeroes = Overlay::in_memory(Arc::new(Zeroes::new(size)), 1 << 20);
        diskfs_block::BlockWrite::write_at(&zeroes, 400 << 20, &[1; 4096]).unwrap();
        let all = pieces(Pieces::new(&zeroes, 4096, Skipped::None));
        let ends = all.iter().map(|piece| piece.offset + piece.len_bytes);
        let starts = all.iter().map(|piece| piece.offset).skip(1).chain([size]);
        assert!(ends.eq(starts));
        assert!(all.iter().all(|piece| piece.len_bytes <= ZEROES_BYTES));
        let small = pieces(Pieces::new(&zeroes, 4096, Skipped::None).with_small_zeroes());
        assert!(small.iter().all(|piece| piece.len_bytes <= PIECE_BYTES));
        let data = pieces(Pieces::new(&zeroes, 4096, Skipped::Zeroes));
        assert!(matches!(
            *data,
            [Piece {
                offset: 0x1900_0000,
                len_bytes: 4096,
                is_zero: false
            }]
        ));
    }
}
