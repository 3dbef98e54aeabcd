//! The last answer about the allocation of an export.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_block::{Extent, ExtentKind};

use crate::protocol::{BlockDescriptor, StateFlags};

/// Runs that follow each other: the end of each, and its kind.
#[derive(Debug)]
struct Runs {
    start: u64,
    ends: Vec<(u64, ExtentKind)>,
    /// The generation in which the server was asked.
    generation: u64,
}

/// The last answer about the allocation of an export. Our own writes invalidate it.
#[derive(Debug, Default)]
pub(super) struct Allocation {
    generation: AtomicU64,
    runs: Mutex<Option<Runs>>,
}

impl Allocation {
    /// Returns the current generation, to be passed to [`set`](Self::set).
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Invalidates all answers of before.
    pub(super) fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the run at `offset`, if it is known.
    pub(super) fn get(&self, offset: u64) -> Option<Extent> {
        let known = self.runs();
        let runs = known.as_ref()?;
        if runs.generation != self.generation() || offset < runs.start {
            return None;
        }
        let index = runs.ends.partition_point(|(end, _)| *end <= offset);
        let (end, kind) = runs.ends.get(index)?;
        Some(Extent {
            len_bytes: end.saturating_sub(offset),
            kind: *kind,
        })
    }

    /// Records an answer, within a device of `size_bytes`.
    pub(super) fn set(
        &self,
        generation: u64,
        start: u64,
        descriptors: &[BlockDescriptor],
        size_bytes: u64,
    ) {
        let mut ends: Vec<(u64, ExtentKind)> = Vec::new();
        let mut at = start;
        for run in descriptors {
            at = at.saturating_add(run.len_bytes).min(size_bytes);
            let kind = kind(run.flags);
            match ends.last_mut() {
                Some(last) if last.1 == kind => last.0 = at,
                _ => ends.push((at, kind)),
            }
        }
        *self.runs() = Some(Runs {
            start,
            ends,
            generation,
        });
    }

    fn runs(&self) -> MutexGuard<'_, Option<Runs>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the kind of a run. A hole that does not read as zeroes has unspecified contents, which
/// have to be read.
fn kind(flags: u64) -> ExtentKind {
    let flags = u32::try_from(flags & u64::from(u32::MAX)).unwrap_or(0);
    let flags = StateFlags::from_bits_truncate(flags);
    if !flags.contains(StateFlags::ZERO) {
        ExtentKind::Data
    } else if flags.contains(StateFlags::HOLE) {
        ExtentKind::Unallocated
    } else {
        ExtentKind::Zero
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_valid_until_the_next_write() {
        let allocation = Allocation::default();
        let run = |len_bytes, flags| BlockDescriptor { len_bytes, flags };
        let generation = allocation.generation();
        let runs = [run(100, 0), run(100, 4), run(100, 3), run(u64::MAX, 2)];
        allocation.set(generation, 1000, &runs, 2000);
        let at = |offset| allocation.get(offset).map(|it| (it.len_bytes, it.kind));
        assert_eq!(at(999), None);
        assert_eq!(at(1000), Some((200, ExtentKind::Data)));
        assert_eq!(at(1250), Some((50, ExtentKind::Unallocated)));
        assert_eq!(at(1999), Some((1, ExtentKind::Zero)));
        assert_eq!(at(2000), None);
        allocation.invalidate();
        assert_eq!(at(1000), None);
        allocation.set(generation, 1000, &runs, 2000);
        assert_eq!(at(1000), None);
    }
}
