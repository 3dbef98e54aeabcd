//! Comparison of the contents of two disks.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, Result};

use super::parallel::for_each;
use super::pieces::{PIECE_BYTES, Piece, Pieces, Skipped};
use super::{ConvertOptions, device};
use crate::numbers::{to_u64, to_usize};

/// Returns the offset of the first byte in which two disks differ, or `None` if they are equal. A
/// shorter disk is compared as if it ended in zeroes. What both are known to read as zeroes is not
/// read.
///
/// Calls `progress` with the number of bytes of the longer disk that were compared. `threads` is the
/// number of threads; `None` for as many as there are processors.
///
/// # Errors
/// The errors of reading; `Cancelled`.
pub fn compare(
    one: &dyn BlockRead,
    other: &dyn BlockRead,
    threads: Option<NonZeroUsize>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<u64>> {
    let (long, short) = if one.size_bytes() >= other.size_bytes() {
        (one, other)
    } else {
        (other, one)
    };
    let comparison = Comparison {
        long,
        short,
        first: AtomicU64::new(u64::MAX),
    };
    let options = ConvertOptions {
        threads,
        ..ConvertOptions::default()
    };
    for_each(
        Pieces::new(long, device::SPARSE_BYTES, Skipped::None),
        options.threads(),
        || Ok(Default::default()),
        |buffers, piece, _| comparison.piece(buffers, piece),
        progress,
    )?;
    let first = comparison.first.into_inner();
    Ok((first != u64::MAX).then_some(first))
}

struct Comparison<'a> {
    long: &'a dyn BlockRead,
    short: &'a dyn BlockRead,
    /// The first difference found so far.
    first: AtomicU64,
}

impl Comparison<'_> {
    fn piece(&self, buffers: &mut (Vec<u8>, Vec<u8>), piece: Piece) -> Result<()> {
        let end = piece.offset.saturating_add(piece.len_bytes);
        let mut at = piece.offset;
        // A piece of zeroes has any length.
        while at < end && at < self.first.load(Ordering::Relaxed) {
            let (len, is_hole) = self.run_of_short(at, end)?;
            if !(piece.is_zero && is_hole) {
                self.read_and_compare(buffers, at, len, (piece.is_zero, is_hole))?;
            }
            at = at.saturating_add(len);
        }
        Ok(())
    }

    /// Returns the length of a run of the shorter disk from `at` on, and whether it is known to read
    /// as zeroes. A run of data is at most a piece long.
    fn run_of_short(&self, at: u64, end: u64) -> Result<(u64, bool)> {
        let left = end.saturating_sub(at);
        let there = self.short.size_bytes().saturating_sub(at);
        if there == 0 {
            return Ok((left, true));
        }
        let extent = self.short.extent_at(at)?;
        let len = extent.len_bytes.min(left).min(there);
        if extent.kind.reads_as_zeroes() {
            return Ok((len, true));
        }
        Ok((len.min(PIECE_BYTES), false))
    }

    fn read_and_compare(
        &self,
        (long, short): &mut (Vec<u8>, Vec<u8>),
        at: u64,
        len: u64,
        (long_is_zero, short_is_zero): (bool, bool),
    ) -> Result<()> {
        let mut at = at;
        let end = at.saturating_add(len);
        while at < end {
            let len = end.saturating_sub(at).min(PIECE_BYTES);
            let difference = match (long_is_zero, short_is_zero) {
                (true, _) => nonzero(read(self.short, at, len, short)?),
                (_, true) => nonzero(read(self.long, at, len, long)?),
                _ => difference(
                    read(self.long, at, len, long)?,
                    read(self.short, at, len, short)?,
                ),
            };
            if let Some(offset) = difference {
                let offset = at.saturating_add(to_u64(offset));
                self.first.fetch_min(offset, Ordering::Relaxed);
                return Ok(());
            }
            at = at.saturating_add(len);
        }
        Ok(())
    }
}

fn read<'b>(
    device: &dyn BlockRead,
    at: u64,
    len: u64,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8]> {
    buffer.resize(to_usize(len), 0);
    device.read_at(at, buffer)?;
    Ok(buffer)
}

fn nonzero(bytes: &[u8]) -> Option<usize> {
    if is_zero(bytes) {
        return None;
    }
    bytes.iter().position(|byte| *byte != 0)
}

fn difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    one.iter().zip(other).position(|(one, other)| one != other)
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;
    use proptest::prelude::*;

    use super::*;

    fn compared(one: &[u8], other: &[u8]) -> Option<u64> {
        let (one, other) = (Memory::new(one.to_vec()), Memory::new(other.to_vec()));
        let mut go_on = |_| ControlFlow::Continue(());
        compare(&one, &other, NonZeroUsize::new(3), &mut go_on).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_first_difference_is_found(
            len in 0_usize..5 << 20,
            extra in 0_usize..3 << 20,
            changes in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
        ) {
            let one = vec![3; len];
            let mut other = one.clone();
            other.resize(len + extra, 0);
            prop_assert_eq!(compared(&one, &other), None);
            let len = other.len();
            for change in changes.iter().filter(|_| len > 0) {
                let at = change.index(len);
                other[at] = 9;
            }
            let expected = other.iter().position(|byte| *byte == 9);
            let expected = expected.map(|at| at as u64);
            prop_assert_eq!(compared(&one, &other), expected);
            prop_assert_eq!(compared(&other, &one), expected);
        }
    }
}
