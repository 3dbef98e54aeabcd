//! The blocks in use of a new filesystem, as runs: there are few, so no bitmap of the whole
//! filesystem is necessary.

use std::collections::BTreeMap;
use std::ops::Range;

/// The blocks in use. Blocks before the first data block are never found free.
#[derive(Debug, Clone)]
pub(super) struct UsedBlocks {
    /// The runs that do not touch each other: start and end.
    runs: BTreeMap<u64, u64>,
    first: u64,
    end: u64,
}

impl UsedBlocks {
    /// Returns a filesystem with the blocks from `first` to before `end`, all of them free.
    pub(super) const fn new(first: u64, end: u64) -> Self {
        Self {
            runs: BTreeMap::new(),
            first,
            end,
        }
    }

    /// Marks a run as in use. It may overlap others.
    pub(super) fn mark(&mut self, start: u64, len_blocks: u64) {
        let mut start = start;
        let mut end = start.saturating_add(len_blocks);
        if let Some((&before, &its_end)) = self.runs.range(..=start).next_back()
            && its_end >= start
        {
            start = before;
            end = end.max(its_end);
        }
        while let Some((&next, &its_end)) = self.runs.range(start..=end).next() {
            self.runs.remove(&next);
            end = end.max(its_end);
        }
        if end > start {
            self.runs.insert(start, end);
        }
    }

    /// Returns the first free block at or after `from`, and the end of its free run.
    fn free_run(&self, from: u64) -> Option<(u64, u64)> {
        let mut start = from.max(self.first);
        if let Some((_, &end)) = self.runs.range(..=start).next_back() {
            start = start.max(end);
        }
        let next = self.runs.range(start..).next();
        let end = next.map_or(self.end, |(&next, _)| next.min(self.end));
        (start < end).then_some((start, end))
    }

    /// Returns the first free run at or after `goal`, or else after the start of the filesystem:
    /// its first block and its length, at most `len_blocks`.
    pub(super) fn first_free(&self, goal: u64, len_blocks: u64) -> Option<(u64, u64)> {
        let goal = if goal < self.end { goal } else { self.first };
        let (start, end) = self.free_run(goal).or_else(|| self.free_run(self.first))?;
        Some((start, end.saturating_sub(start).min(len_blocks)))
    }

    /// Returns the first block of `len_blocks` free blocks that begin at or after `start` and
    /// before `finish`. If `finish` is not after `start`, the search continues at the start of the
    /// filesystem, as in mke2fs.
    pub(super) fn find(&self, start: u64, finish: u64, len_blocks: u64) -> Option<u64> {
        let start = if start == 0 { self.first } else { start };
        if finish > start {
            return self.find_in(start..finish, len_blocks);
        }
        self.find_in(start..self.end, len_blocks)
            .or_else(|| self.find_in(self.first..finish, len_blocks))
    }

    fn find_in(&self, starts: Range<u64>, len_blocks: u64) -> Option<u64> {
        let mut from = starts.start;
        while let Some((start, end)) = self.free_run(from) {
            if start >= starts.end {
                return None;
            }
            if end.saturating_sub(start) >= len_blocks {
                return Some(start);
            }
            from = end;
        }
        None
    }

    /// Returns the runs in use within a range, cut to it.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.runs.range(..range.start).next_back();
        let inside = self.runs.range(range.clone());
        let all = before.into_iter().chain(inside);
        let cut = move |(&start, &end): (&u64, &u64)| start.max(range.start)..end.min(range.end);
        all.map(cut).filter(|run| !run.is_empty())
    }

    /// Returns the number of blocks in use within a range.
    pub(super) fn count_in(&self, range: Range<u64>) -> u64 {
        let lens = self
            .within(range)
            .map(|run| run.end.saturating_sub(run.start));
        lens.fold(0, u64::saturating_add)
    }

    /// Returns the blocks in use rounded to whole clusters of `2^cluster_bits` blocks.
    pub(super) fn in_clusters(&self, cluster_bits: u32) -> Self {
        let mut clusters = Self::new(self.first, self.end);
        let mask = 1u64.wrapping_shl(cluster_bits).wrapping_sub(1);
        for (&start, &end) in &self.runs {
            let start = start & !mask;
            let end = end.saturating_add(mask) & !mask;
            clusters.mark(start, end.saturating_sub(start));
        }
        clusters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged() {
        let mut used = UsedBlocks::new(1, 100);
        for (start, len) in [(10, 5), (20, 5), (15, 5), (1, 1), (40, 10), (38, 30)] {
            used.mark(start, len);
        }
        assert_eq!(used.runs, BTreeMap::from([(1, 2), (10, 25), (38, 68)]));
        let within: Vec<_> = used.within(12..40).collect();
        assert_eq!(within, [12..25, 38..40]);
        assert_eq!(used.count_in(0..100), 1 + 15 + 30);
    }

    #[test]
    fn free_blocks_are_found() {
        let mut used = UsedBlocks::new(1, 100);
        used.mark(10, 10);
        used.mark(30, 60);
        assert_eq!(used.first_free(0, 50), Some((1, 9)));
        assert_eq!(used.first_free(15, 4), Some((20, 4)));
        assert_eq!(used.first_free(200, 4), Some((1, 4)));
        assert_eq!(used.find(5, 100, 10), Some(20));
        assert_eq!(used.find(5, 20, 10), None);
        assert_eq!(used.find(95, 5, 9), Some(1));
        used.mark(90, 10);
        assert_eq!(used.first_free(50, 9), Some((1, 9)));
    }

    #[test]
    fn clusters_are_whole() {
        let mut used = UsedBlocks::new(0, 64);
        used.mark(3, 1);
        used.mark(15, 2);
        let clusters = used.in_clusters(2);
        assert_eq!(clusters.runs, BTreeMap::from([(0, 4), (12, 20)]));
    }
}
