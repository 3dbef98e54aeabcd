//! Which clusters are free.

use diskfs_clusters::{Chain, Cluster};

use crate::bytes::index;
use crate::error::Result;
use crate::fat::{FatEntry, FatTable};

/// A bit for each cluster that is in use, and where to look next.
#[derive(Debug)]
pub(crate) struct Allocation {
    used: Vec<u64>,
    clusters: u32,
    free: u32,
    next: u32,
}

impl Allocation {
    /// As the table has it.
    pub(crate) fn read(fat: &FatTable, clusters: u32) -> Result<Self> {
        let mut allocation = Self {
            used: vec![0; index(clusters.div_ceil(64))],
            clusters,
            free: clusters,
            next: 0,
        };
        fat.for_each(|cluster, entry| {
            if entry != FatEntry::Free {
                allocation.mark(cluster, true);
            }
        })?;
        Ok(allocation)
    }

    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Where the next search begins, as a cluster.
    pub(crate) fn next(&self) -> Cluster {
        Cluster(2).plus(self.next)
    }

    fn is_used(&self, nth: u32) -> bool {
        let word = self.used.get(index(nth / 64)).copied().unwrap_or(u64::MAX);
        word & (1 << (nth % 64)) != 0
    }

    fn mark(&mut self, cluster: Cluster, used: bool) {
        let nth = cluster.0.saturating_sub(2);
        if nth >= self.clusters || self.is_used(nth) == used {
            return;
        }
        if let Some(word) = self.used.get_mut(index(nth / 64)) {
            *word ^= 1 << (nth % 64);
        }
        self.free = if used {
            self.free.saturating_sub(1)
        } else {
            self.free.saturating_add(1)
        };
    }

    /// Takes `count` clusters, `after` that one if they are free there; `None` when there are fewer.
    pub(crate) fn take(&mut self, count: u32, after: Option<Cluster>) -> Option<Chain> {
        if count > self.free {
            return None;
        }
        let mut chain = Chain::default();
        let beside = after.map(|cluster| cluster.0.saturating_sub(1));
        let mut nth = beside.unwrap_or(self.next);
        while chain.clusters() < count {
            nth = self.next_free(nth)?;
            let cluster = Cluster(2).plus(nth);
            self.mark(cluster, true);
            chain.push(cluster, 1);
        }
        self.next = nth.saturating_add(1);
        Some(chain)
    }

    /// The first free one from `nth` on, or from the beginning.
    fn next_free(&self, nth: u32) -> Option<u32> {
        let from = |start: u32, end: u32| {
            let mut nth = start;
            while nth < end {
                let word = self.used.get(index(nth / 64)).copied()?;
                if nth.is_multiple_of(64) && word == u64::MAX {
                    nth = nth.saturating_add(64);
                } else if self.is_used(nth) {
                    nth = nth.saturating_add(1);
                } else {
                    return Some(nth);
                }
            }
            None
        };
        from(nth, self.clusters).or_else(|| from(0, nth.min(self.clusters)))
    }

    /// Gives clusters back.
    pub(crate) fn give_back(&mut self, chain: &Chain) {
        for cluster in chain.runs().iter().flat_map(diskfs_clusters::Run::clusters) {
            self.mark(cluster, false);
        }
    }
}
