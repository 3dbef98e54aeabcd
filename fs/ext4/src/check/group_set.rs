//! A set of clusters of one block group.

use crate::allocator::BitRun;
use crate::bytes::{index, len_u64};

/// A group with more runs than one for so many clusters is stored as bits: at most 256 runs (2 KiB)
/// in place of 4 KiB of bits.
const CLUSTERS_PER_RUN: u32 = 128;
const WORD_BITS: u32 = u64::BITS;

/// The clusters of a group.
#[derive(Debug, Default)]
pub(super) struct GroupSet {
    members: Members,
    pub(super) count: u32,
}

#[derive(Debug)]
enum Members {
    /// Sorted runs that do not touch each other.
    Runs(Vec<BitRun>),
    Bits(Box<[u64]>),
    Full,
}

impl Default for Members {
    fn default() -> Self {
        Self::Runs(Vec::new())
    }
}

impl GroupSet {
    /// Inserts a run into the set of a group of `len` clusters. Appends the parts that were in the
    /// set before to `present`.
    pub(super) fn insert(&mut self, run: BitRun, len: u32, present: &mut Vec<BitRun>) {
        let before = present.len();
        match &mut self.members {
            Members::Full => present.push(run),
            Members::Bits(words) => insert_bits(words, run, present),
            Members::Runs(runs) => {
                insert_run(runs, run, present);
                let runs_max = index(len.wrapping_div(CLUSTERS_PER_RUN)).max(2);
                if runs.len() > runs_max {
                    self.members = Members::Bits(self.to_words(len).into());
                }
            }
        }
        let found = present.get(before..).unwrap_or_default();
        let overlap = found
            .iter()
            .fold(0u32, |sum, run| sum.saturating_add(run.len));
        self.count = self.count.saturating_add(run.len.saturating_sub(overlap));
        if self.count >= len {
            self.members = Members::Full;
        }
    }

    /// Returns the memory of the members.
    pub(super) fn heap_bytes(&self) -> u64 {
        let words = match &self.members {
            Members::Full => 0,
            Members::Runs(runs) => runs.capacity(),
            Members::Bits(words) => words.len(),
        };
        // A run and a word both have eight bytes.
        len_u64(words).saturating_mul(8)
    }

    /// Forgets the members, but not their number.
    pub(super) fn forget_members(&mut self) {
        self.members = Members::default();
    }

    /// Returns the parts of a run that are in the set.
    pub(super) fn within(&self, run: BitRun) -> Vec<BitRun> {
        match &self.members {
            Members::Full => vec![run],
            Members::Runs(runs) => overlaps(runs, run).collect(),
            Members::Bits(words) => {
                let mut present = Vec::new();
                for (place, mask, base) in words_of(run) {
                    let word = words.get(place).copied().unwrap_or(0);
                    push_runs(word & mask, base, &mut present);
                }
                present
            }
        }
    }

    pub(super) fn to_words(&self, len: u32) -> Vec<u64> {
        let mut words = vec![0; index(len.div_ceil(WORD_BITS))];
        match &self.members {
            Members::Bits(bits) => words.copy_from_slice(bits),
            Members::Full => insert_bits(&mut words, BitRun { start: 0, len }, &mut Vec::new()),
            Members::Runs(runs) => {
                for &run in runs {
                    insert_bits(&mut words, run, &mut Vec::new());
                }
            }
        }
        words
    }
}

/// Returns the intersections of `run` with sorted runs.
fn overlaps(runs: &[BitRun], run: BitRun) -> impl Iterator<Item = BitRun> + '_ {
    let first = runs.partition_point(|other| other.end() <= run.start);
    let behind = runs.get(first..).unwrap_or_default();
    let inside = behind
        .iter()
        .take_while(move |other| other.start < run.end());
    inside.map(move |other| between(other.start.max(run.start), other.end().min(run.end())))
}

fn between(start: u32, end: u32) -> BitRun {
    BitRun {
        start,
        len: end.saturating_sub(start),
    }
}

fn insert_run(runs: &mut Vec<BitRun>, run: BitRun, present: &mut Vec<BitRun>) {
    present.extend(overlaps(runs, run));
    let first = runs.partition_point(|other| other.end() < run.start);
    let end = runs.partition_point(|other| other.start <= run.end());
    let joined = runs.get(first..end).unwrap_or_default();
    let start = joined
        .first()
        .map_or(run.start, |other| other.start.min(run.start));
    let last = joined
        .last()
        .map_or(run.end(), |other| other.end().max(run.end()));
    runs.splice(first..end, [between(start, last)]);
}

fn insert_bits(words: &mut [u64], run: BitRun, present: &mut Vec<BitRun>) {
    for (place, mask, base) in words_of(run) {
        if let Some(word) = words.get_mut(place) {
            push_runs(*word & mask, base, present);
            *word |= mask;
        }
    }
}

/// Returns the words of a run: the index of each, the mask of the run in it, and its first bit.
fn words_of(run: BitRun) -> impl Iterator<Item = (usize, u64, u32)> {
    let first = run.start.wrapping_div(WORD_BITS);
    let end = run.end().div_ceil(WORD_BITS);
    (first..end).map(move |nth| {
        let base = nth.saturating_mul(WORD_BITS);
        let from = run.start.saturating_sub(base);
        let until = run.end().saturating_sub(base).min(WORD_BITS);
        let len = until.saturating_sub(from);
        let mask = u64::MAX.wrapping_shr(WORD_BITS.saturating_sub(len));
        (index(nth), mask.wrapping_shl(from), base)
    })
}

/// Appends the runs of set bits of a word, joined with the last run if they continue it.
fn push_runs(mut word: u64, base: u32, runs: &mut Vec<BitRun>) {
    while word != 0 {
        let start = word.trailing_zeros();
        let len = word.wrapping_shr(start).trailing_ones();
        let mask = u64::MAX.wrapping_shr(WORD_BITS.saturating_sub(len));
        word &= !mask.wrapping_shl(start);
        let start = base.saturating_add(start);
        match runs.last_mut() {
            Some(last) if last.end() == start => last.len = last.len.saturating_add(len),
            _ => runs.push(BitRun { start, len }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn same_as_a_vector_of_booleans(
            runs in prop::collection::vec((0u32..1000, 1u32..200), 1..60),
        ) {
            let len = 1100;
            let mut set = GroupSet::default();
            let mut model = vec![false; 1100];
            for (start, run_len) in runs {
                let run = BitRun { start, len: run_len.min(len - start) };
                let range = usize::try_from(start).unwrap()..usize::try_from(run.end()).unwrap();
                let before = model[range.clone()].iter().filter(|set| **set).count();
                let mut within = 0;
                for part in set.within(run) {
                    within += part.len;
                }
                let mut present = Vec::new();
                set.insert(run, len, &mut present);
                let found: u32 = present.iter().map(|run| run.len).sum();
                prop_assert_eq!(usize::try_from(found).unwrap(), before);
                prop_assert_eq!(within, found);
                model[range].fill(true);
                let count = model.iter().filter(|set| **set).count();
                prop_assert_eq!(usize::try_from(set.count).unwrap(), count);
            }
            let words = set.to_words(len);
            for (bit, set) in model.iter().enumerate() {
                prop_assert_eq!(words[bit / 64] >> (bit % 64) & 1 == 1, *set);
            }
        }
    }
}
