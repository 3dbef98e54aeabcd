//! Chunks of one device of which some are on another: snapshots, and the dirty blocks of a cache.

use std::num::NonZeroU64;

use super::{Access, Piece, Target};

/// The indices of the members: the one with the chunks that did not move, and the one with those
/// that did.
const FROM: usize = 0;
const TO: usize = 1;

/// The chunks that have moved.
#[derive(Debug)]
pub(crate) struct Moved {
    chunk_bytes: NonZeroU64,
    /// The original and the current chunk of each, in order.
    chunks: Vec<(u64, u64)>,
    access: Access,
}

impl Moved {
    /// Creates the table from chunks in any order. Of two entries for the same original chunk, the
    /// first counts.
    pub(crate) fn new(
        chunk_bytes: NonZeroU64,
        mut chunks: Vec<(u64, u64)>,
        access: Access,
    ) -> Self {
        chunks.sort_by_key(|(from, _)| *from);
        chunks.dedup_by_key(|(from, _)| *from);
        Self {
            chunk_bytes,
            chunks,
            access,
        }
    }

    /// Returns the piece from `offset` on.
    pub(super) fn piece_at(&self, offset: u64) -> Piece {
        let (chunk, within) = (offset / self.chunk_bytes, offset % self.chunk_bytes);
        let index = self.chunks.partition_point(|(from, _)| *from < chunk);
        let mut following = self.chunks.iter().skip(index).copied();
        let next = following.next();
        let (member, offset_there, end) = match next {
            Some((from, to)) if from == chunk => {
                let start = to.saturating_mul(self.chunk_bytes.get());
                let end = run_end(from, to, following);
                (TO, start.saturating_add(within), Some(end))
            }
            _ => (FROM, offset, next.map(|(from, _)| from)),
        };
        let end = end.map_or(u64::MAX, |end| end.saturating_mul(self.chunk_bytes.get()));
        Piece {
            len_bytes: end.saturating_sub(offset),
            target: Target::Member {
                member,
                offset: offset_there,
            },
            access: self.access,
        }
    }
}

/// Returns the chunk at which the run ends that begins at `from` and is now at `to`.
fn run_end(from: u64, to: u64, following: impl Iterator<Item = (u64, u64)>) -> u64 {
    let (mut end, mut next_to) = (from.saturating_add(1), to.saturating_add(1));
    for next in following {
        if next != (end, next_to) {
            break;
        }
        end = end.saturating_add(1);
        next_to = next_to.saturating_add(1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_they_are() {
        let chunk_bytes = NonZeroU64::new(10).unwrap();
        let chunks = vec![(7, 1), (3, 5), (2, 4), (8, 9), (3, 6)];
        let moved = Moved::new(chunk_bytes, chunks, Access::Granted);
        let at = |offset| {
            let piece = moved.piece_at(offset);
            let Target::Member { member, offset } = piece.target else {
                panic!("{piece:?}");
            };
            (piece.len_bytes, member, offset)
        };
        assert_eq!(at(0), (20, FROM, 0));
        assert_eq!(at(19), (1, FROM, 19));
        assert_eq!(at(20), (20, TO, 40));
        assert_eq!(at(35), (5, TO, 55));
        assert_eq!(at(40), (30, FROM, 40));
        assert_eq!(at(71), (9, TO, 11));
        assert_eq!(at(80), (10, TO, 90));
        assert_eq!(at(90), (u64::MAX - 90, FROM, 90));
    }
}
