//! The parts of a read that have arrived.

use std::collections::BTreeMap;

use crate::protocol::Violation;

/// The number of separate parts that a read may have at a time. Ours: servers send their chunks in
/// order, so that there is one.
const MAX_PARTS: usize = 4096;

/// The parts of a read that have arrived: from each beginning to its end.
#[derive(Debug, Default)]
pub(super) struct Covered(BTreeMap<u64, u64>);

impl Covered {
    /// Adds a part, which must not overlap with others.
    pub(super) fn add(&mut self, start: u64, end: u64) -> Result<(), Violation> {
        let before = self.0.range(..=start).next_back().map(|(a, b)| (*a, *b));
        let after = self.0.range(start..).next().map(|(a, b)| (*a, *b));
        let overlaps = before.is_some_and(|(_, other)| other > start)
            || after.is_some_and(|(other, _)| other < end);
        if overlaps {
            return Err(Violation("chunks that overlap"));
        }
        let (mut from, mut to) = (start, end);
        if let Some((other, _)) = before.filter(|(_, other)| *other == start) {
            from = other;
        }
        if let Some((other, other_end)) = after.filter(|(other, _)| *other == end) {
            self.0.remove(&other);
            to = other_end;
        }
        self.0.insert(from, to);
        if self.0.len() > MAX_PARTS {
            return Err(Violation("more than 4096 chunks without order"));
        }
        Ok(())
    }

    /// Returns true if the whole range has arrived.
    pub(super) fn is_all_of(&self, start: u64, end: u64) -> bool {
        start == end || self.0.get(&start) == Some(&end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_arrive_in_any_order_and_once() {
        let mut covered = Covered::default();
        for (start, end) in [(10, 20), (30, 40), (0, 10), (20, 30)] {
            covered.add(start, end).unwrap();
            assert!(covered.add(start, end).is_err());
        }
        assert!(covered.is_all_of(0, 40) && !covered.is_all_of(0, 41));
        assert!(covered.add(39, 50).is_err());
        let mut covered = Covered::default();
        let scattered = (0..=MAX_PARTS as u64).map(|it| covered.add(2 * it, 2 * it + 1));
        assert!(scattered.collect::<Result<(), _>>().is_err());
    }
}
