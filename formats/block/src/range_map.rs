//! A map from ranges of blocks to values.

use std::collections::BTreeMap;
use std::ops::Range;

/// A map from non-overlapping ranges to values. Neighbours of the same value are merged, so its
/// size grows with the number of differences, not with the number of blocks.
#[derive(Debug, Clone)]
pub(crate) struct RangeMap<V> {
    /// The ranges by start: the end, and the value.
    ranges: BTreeMap<u64, (u64, V)>,
}

/// The result of a look-up: the end of the run, and the value, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunLookup<V> {
    pub(crate) end: u64,
    pub(crate) value: Option<V>,
}

impl<V> Default for RangeMap<V> {
    fn default() -> Self {
        Self {
            ranges: BTreeMap::new(),
        }
    }
}

impl<V: Copy + PartialEq> RangeMap<V> {
    /// Returns the value at `at` and where its run ends, at most `limit`.
    pub(crate) fn find(&self, at: u64, limit: u64) -> RunLookup<V> {
        let before = self.ranges.range(..=at).next_back();
        if let Some((_, &(end, value))) = before.filter(|&(_, &(end, _))| at < end) {
            return RunLookup {
                end: end.min(limit),
                value: Some(value),
            };
        }
        let next = self.ranges.range(at..).next().map(|(&start, _)| start);
        RunLookup {
            end: next.unwrap_or(limit).min(limit),
            value: None,
        }
    }

    /// Sets the value of all of `range`.
    pub(crate) fn insert(&mut self, range: Range<u64>, value: V) {
        if range.is_empty() {
            return;
        }
        self.cut_at(range.start);
        self.cut_at(range.end);
        while let Some(start) = self.ranges.range(range.clone()).next().map(|(&s, _)| s) {
            self.ranges.remove(&start);
        }
        let Range { mut start, mut end } = range;
        let before = self.ranges.range(..start).next_back();
        if let Some((&before, &(before_end, v))) = before
            && before_end == start
            && v == value
        {
            start = before;
        }
        if let Some(&(after_end, v)) = self.ranges.get(&end)
            && v == value
        {
            self.ranges.remove(&end);
            end = after_end;
        }
        self.ranges.insert(start, (end, value));
    }

    /// Splits the range that crosses `at` in two.
    fn cut_at(&mut self, at: u64) {
        let before = self.ranges.range_mut(..at).next_back();
        if let Some((_, (end, value))) = before
            && *end > at
        {
            let rest = (*end, *value);
            *end = at;
            self.ranges.insert(at, rest);
        }
    }

    /// Returns all ranges in order, with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range<u64>, V)> + '_ {
        self.ranges
            .iter()
            .map(|(&start, &(end, value))| (start..end, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_an_array(steps in prop::collection::vec((0_u64..60, 0_u64..30, 0_u8..3), 0..30)) {
            let mut map = RangeMap::default();
            let mut model = [None; 90];
            for (start, len, value) in steps {
                map.insert(start..start + len, value);
                model[usize::try_from(start).unwrap()..usize::try_from(start + len).unwrap()]
                    .fill(Some(value));
                for at in 0..90 {
                    let found = map.find(at, 90);
                    let run = usize::try_from(at).unwrap()..usize::try_from(found.end).unwrap();
                    prop_assert!(!run.is_empty());
                    prop_assert!(model[run].iter().all(|v| *v == found.value));
                }
                // The ranges are maximal: no two neighbours could be merged.
                let all: Vec<_> = map.iter().collect();
                prop_assert!(all.windows(2).all(|w| w[0].0.end < w[1].0.start || w[0].1 != w[1].1));
            }
        }
    }
}
