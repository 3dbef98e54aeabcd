//! The cluster numbers before and after a change of the size.

use std::collections::BTreeMap;

use crate::chain::Cluster;

/// A run of clusters whose contents move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The first cluster of the run, as the old filesystem numbers it.
    pub from: Cluster,
    /// The first cluster of the new run, as the new filesystem numbers it.
    pub to: Cluster,
    /// The number of clusters.
    pub count: u32,
}

/// The relation between old and new cluster numbers.
///
/// A cluster that stays in its place gets a number that is smaller by the same `shift` for all
/// clusters, because the first clusters make room for longer tables. The other clusters move.
#[derive(Debug)]
pub struct Renumbering {
    shift: u32,
    old_clusters: u32,
    new_clusters: u32,
    /// The clusters that move, by old and by new number.
    by_old: BTreeMap<Cluster, Move>,
    by_new: BTreeMap<Cluster, Move>,
}

impl Renumbering {
    /// Returns a renumbering in which no cluster moves. `shift` is the number of clusters that
    /// make room at the beginning.
    pub fn new(shift: u32, old_clusters: u32, new_clusters: u32) -> Self {
        Self {
            shift,
            old_clusters,
            new_clusters,
            by_old: BTreeMap::new(),
            by_new: BTreeMap::new(),
        }
    }

    /// Returns the number of clusters that make room at the beginning.
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the number of clusters of the new filesystem.
    pub const fn new_clusters(&self) -> u32 {
        self.new_clusters
    }

    /// Returns the new number of a place; `None` if the new filesystem has no cluster there.
    pub fn in_place(&self, old: Cluster) -> Option<Cluster> {
        let new = Cluster(old.0.checked_sub(self.shift)?);
        exists(new, self.new_clusters).then_some(new)
    }

    /// Adds clusters that move.
    pub fn add(&mut self, part: Move) {
        self.by_old.insert(part.from, part);
        self.by_new.insert(part.to, part);
    }

    /// Returns the clusters that move, in the order of their old numbers.
    pub fn moves(&self) -> impl Iterator<Item = Move> {
        self.by_old.values().copied()
    }

    /// Returns the new number of a cluster that is in use; `None` if the cluster does not exist,
    /// or was free and has no place in the new filesystem.
    pub fn new_number(&self, old: Cluster) -> Option<Cluster> {
        if !exists(old, self.old_clusters) {
            return None;
        }
        if let Some((_, part)) = self.by_old.range(..=old).next_back()
            && let Some(nth) = within(old, part.from, part.count)
        {
            return Some(part.to.plus(nth));
        }
        self.in_place(old)
    }

    /// Returns the old number of the cluster whose contents have this new number; `None` for a new
    /// cluster, and for one whose old contents moved elsewhere.
    pub fn old_number(&self, new: Cluster) -> Option<Cluster> {
        if let Some((_, part)) = self.by_new.range(..=new).next_back()
            && let Some(nth) = within(new, part.to, part.count)
        {
            return Some(part.from.plus(nth));
        }
        let old = new.plus(self.shift);
        (self.new_number(old) == Some(new)).then_some(old)
    }
}

fn exists(cluster: Cluster, clusters: u32) -> bool {
    let nth = cluster.0.checked_sub(2);
    nth.is_some_and(|nth| nth < clusters)
}

fn within(cluster: Cluster, first: Cluster, count: u32) -> Option<u32> {
    let nth = cluster.0.checked_sub(first.0)?;
    (nth < count).then_some(nth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_there_and_back() {
        let mut renumbering = Renumbering::new(4, 10, 20);
        renumbering.add(Move {
            from: Cluster(3),
            to: Cluster(9),
            count: 2,
        });
        let new = |old: u32| renumbering.new_number(Cluster(old)).map(|new| new.0);
        assert_eq!([new(1), new(2), new(5)], [None, None, None]);
        assert_eq!(
            [new(3), new(4), new(6), new(11)],
            [Some(9), Some(10), Some(2), Some(7)]
        );
        assert_eq!(new(12), None);
        let old = |new: u32| renumbering.old_number(Cluster(new)).map(|old| old.0);
        assert_eq!(
            [old(2), old(7), old(8), old(9), old(10), old(11)],
            [Some(6), Some(11), None, Some(3), Some(4), None]
        );
    }
}
