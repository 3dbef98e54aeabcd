//! The choice of extents for a logical volume that grows.

use std::ops::Range;

use super::free_extents::{FreeExtents, len};

/// A place on a physical volume: its index, and an extent.
pub(super) type PlaceOnPv = (usize, u64);

/// Extents for a logical volume: as many from each of the places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The number of extents at each place.
    pub(super) extents: u64,
    /// The first extent for each stripe; one for a linear volume.
    pub(super) places: Vec<PlaceOnPv>,
}

impl Piece {
    /// Returns the number of stripes.
    pub(super) fn stripes(&self) -> u64 {
        u64::try_from(self.places.len()).unwrap_or(u64::MAX)
    }

    /// Returns the number of extents at all places.
    pub(super) fn all_extents(&self) -> u64 {
        self.extents.saturating_mul(self.stripes())
    }

    /// Returns the places after the piece.
    fn ends(&self) -> Vec<PlaceOnPv> {
        let places = self.places.iter();
        let ends = places.map(|&(pv, extent)| (pv, extent.saturating_add(self.extents)));
        ends.collect()
    }
}

/// Allocates up to `wanted` extents for each stripe. `ends` has the places after the volume's last
/// extents, one for each stripe; `None` for a new volume.
///
/// As LVM does by default, each stripe continues where it ends, otherwise on the same physical
/// volume, otherwise on another one. The stripes of a piece are on different physical volumes.
pub(super) fn allocate(
    free: &mut FreeExtents,
    mut ends: Vec<Option<PlaceOnPv>>,
    mut wanted: u64,
) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    while wanted > 0
        && let Some(ranges) = choose(free, &ends, wanted)
    {
        let shortest = ranges.iter().map(|(_, range)| len(range)).min();
        let extents = shortest.unwrap_or(0).min(wanted);
        if extents == 0 {
            break;
        }
        let places = ranges.iter().map(|(pv, range)| (*pv, range.start));
        let piece = Piece {
            extents,
            places: places.collect(),
        };
        for &(pv, start) in &piece.places {
            free.take(pv, &(start..start.saturating_add(extents)));
        }
        ends = piece.ends().into_iter().map(Some).collect();
        wanted = wanted.saturating_sub(extents);
        match pieces.last_mut() {
            Some(last) if last.ends() == piece.places => {
                last.extents = last.extents.saturating_add(extents);
            }
            _ => pieces.push(piece),
        }
    }
    pieces
}

/// Chooses a free range for each stripe; returns `None` if one has none.
fn choose(
    free: &FreeExtents,
    ends: &[Option<PlaceOnPv>],
    wanted: u64,
) -> Option<Vec<(usize, Range<u64>)>> {
    let mut taken = vec![false; free.physical_volumes()];
    let mut chosen: Vec<Option<(usize, Range<u64>)>> = Vec::new();
    for end in ends {
        let near = end.and_then(|(pv, extent)| {
            let is_taken = taken.get_mut(pv).filter(|taken| !**taken)?;
            let next = free.from(pv, extent);
            let range = next.or_else(|| free.best(pv, wanted))?;
            *is_taken = true;
            Some((pv, range))
        });
        chosen.push(near);
    }
    for stripe in chosen.iter_mut().filter(|stripe| stripe.is_none()) {
        let (pv, range) = elsewhere(free, &taken, wanted)?;
        if let Some(taken) = taken.get_mut(pv) {
            *taken = true;
        }
        *stripe = Some((pv, range));
    }
    chosen.into_iter().collect()
}

/// Returns the first range with `wanted` extents on a physical volume that is not taken, or else
/// the longest.
fn elsewhere(free: &FreeExtents, taken: &[bool], wanted: u64) -> Option<(usize, Range<u64>)> {
    let others = taken.iter().enumerate().filter(|(_, taken)| !**taken);
    let ranges = others.filter_map(|(pv, _)| Some((pv, free.best(pv, wanted)?)));
    let ranges: Vec<_> = ranges.collect();
    let fits = ranges.iter().find(|(_, range)| len(range) >= wanted);
    let longest = || ranges.iter().rev().max_by_key(|(_, range)| len(range));
    fits.or_else(longest).cloned()
}
