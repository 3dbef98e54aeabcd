//! The extents of a group's physical volumes that no logical volume uses.

use std::ops::Range;

use super::super::VolumeGroup;
use super::super::segment::Segment;

/// The free extents, by the index of the physical volume: sorted ranges that do not touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FreeExtents(Vec<Vec<Range<u64>>>);

impl FreeExtents {
    /// Returns the free extents of all physical volumes on which LVM may allocate.
    pub(super) fn of(group: &VolumeGroup) -> Self {
        let mut used = vec![Vec::new(); group.physical_volumes.len()];
        let segments = group.logical_volumes.iter().flat_map(|lv| &lv.segments);
        for (area, extents) in segments.flat_map(Segment::areas) {
            let index = group.pv_by_key.get(&area.name);
            if let Some(used) = index.and_then(|&index| used.get_mut(index)) {
                used.push(area.extent..area.extent.saturating_add(extents));
            }
        }
        let free = group.physical_volumes.iter().zip(used);
        let free = free.map(|(entry, used)| {
            if entry.allocatable {
                gaps(used, entry.extents)
            } else {
                Vec::new()
            }
        });
        Self(free.collect())
    }

    /// Returns the number of free extents.
    pub(super) fn count(&self) -> u64 {
        let lengths = self.0.iter().flatten().map(len);
        lengths.fold(0, u64::saturating_add)
    }

    /// Returns the number of physical volumes.
    pub(super) fn physical_volumes(&self) -> usize {
        self.0.len()
    }

    /// Returns the free range that begins at an extent, if that is free.
    pub(super) fn from(&self, pv: usize, extent: u64) -> Option<Range<u64>> {
        let found = self.0.get(pv)?.iter().find(|range| range.contains(&extent));
        found.map(|range| extent..range.end)
    }

    /// Returns the first range that has `wanted` extents, or else the longest one.
    pub(super) fn best(&self, pv: usize, wanted: u64) -> Option<Range<u64>> {
        let ranges = self.0.get(pv)?;
        let fits = ranges.iter().find(|range| len(range) >= wanted);
        // `max_by_key` returns the last of equal ones.
        let longest = || ranges.iter().rev().max_by_key(|range| len(range));
        fits.or_else(longest).cloned()
    }

    /// Removes a part of a free range.
    pub(super) fn take(&mut self, pv: usize, taken: &Range<u64>) {
        let Some(ranges) = self.0.get_mut(pv) else {
            return;
        };
        let parts = ranges.iter().flat_map(|range| {
            let before = range.start..range.end.min(taken.start);
            let after = range.start.max(taken.end)..range.end;
            [before, after]
        });
        *ranges = parts.filter(|range| !range.is_empty()).collect();
    }
}

/// Returns the length of a range.
pub(super) fn len(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Returns the ranges from 0 to `extents` that are not in `used`.
fn gaps(mut used: Vec<Range<u64>>, extents: u64) -> Vec<Range<u64>> {
    used.sort_by_key(|range| range.start);
    used.push(extents..extents);
    let mut free = Vec::new();
    let mut from = 0;
    for range in used {
        if from < range.start.min(extents) {
            free.push(from..range.start.min(extents));
        }
        from = from.max(range.end);
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_not_used() {
        let gaps = |used: &[Range<u64>]| format!("{:?}", super::gaps(used.to_vec(), 5));
        assert_eq!(gaps(&[]), "[0..5]");
        assert_eq!(gaps(&[3..4, 0..2]), "[2..3, 4..5]");
        for used in [0..5, 0..u64::MAX] {
            assert_eq!(gaps(&[used]), "[]");
        }
        let past_the_end = 7..9;
        assert_eq!(gaps(&[past_the_end]), "[0..5]");
    }

    #[test]
    fn the_first_range_that_fits_is_best() {
        let mut free = FreeExtents(vec![vec![0..2, 5..9, 20..24]]);
        assert_eq!(free.best(0, 2), Some(0..2));
        assert_eq!(free.best(0, 3), Some(5..9));
        assert_eq!(free.best(0, 99), Some(5..9));
        assert_eq!(free.best(1, 1), None);
        assert_eq!(free.from(0, 7), Some(7..9));
        assert_eq!(free.from(0, 9), None);
        free.take(0, &(6..8));
        assert_eq!(free, FreeExtents(vec![vec![0..2, 5..6, 8..9, 20..24]]));
        assert_eq!(free.count(), 8);
    }
}
