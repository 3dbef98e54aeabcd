//! The allocator of free clusters.

use diskfs_block::bytes::{array, index};

use crate::chain::{Chain, Cluster, Run};

/// The allocation state of a filesystem: one bit per cluster in the layout of exFAT's allocation
/// bitmap (1 is in use), and the cluster at which the next search starts.
#[derive(Debug)]
pub struct Allocation {
    used: Vec<u8>,
    clusters: u32,
    free: u32,
    next: u32,
}

/// The use of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClusterUse {
    Free,
    InUse,
}

impl Allocation {
    /// Returns an allocation of `clusters` clusters, all of them free.
    pub fn new(clusters: u32) -> Self {
        Self::from_bits(vec![0; index(clusters.div_ceil(8))], clusters)
    }

    /// Builds an allocation from a bitmap. Bits after the last cluster are ignored.
    pub fn from_bits(used: Vec<u8>, clusters: u32) -> Self {
        Self {
            free: clusters.saturating_sub(count_used(&used, clusters)),
            used,
            clusters,
            next: 0,
        }
    }

    /// Returns the bitmap.
    pub fn bits(&self) -> &[u8] {
        &self.used
    }

    /// Returns the number of free clusters.
    pub const fn free(&self) -> u32 {
        self.free
    }

    /// Returns the total number of clusters.
    pub const fn clusters(&self) -> u32 {
        self.clusters
    }

    /// Returns the cluster at which the next search starts.
    pub const fn next(&self) -> Cluster {
        Cluster(2).plus(self.next)
    }

    fn is_used(&self, nth: u32) -> bool {
        let byte = self.used.get(index(nth / 8)).copied().unwrap_or(u8::MAX);
        byte & (1 << (nth % 8)) != 0
    }

    /// Marks a cluster as used or as free.
    pub fn mark(&mut self, cluster: Cluster, used: bool) {
        let nth = cluster.0.saturating_sub(2);
        if nth >= self.clusters || self.is_used(nth) == used {
            return;
        }
        if let Some(byte) = self.used.get_mut(index(nth / 8)) {
            *byte ^= 1 << (nth % 8);
        }
        self.free = if used {
            self.free.saturating_sub(1)
        } else {
            self.free.saturating_add(1)
        };
    }

    /// Allocates `count` clusters, directly after `after` if those are free. Returns `None`, and
    /// allocates nothing, if fewer than `count` are free.
    pub fn allocate(&mut self, count: u32, after: Option<Cluster>) -> Option<Chain> {
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

    /// Returns the runs of free clusters in ascending order: the first cluster and the number.
    pub fn into_free_runs(self) -> impl Iterator<Item = (Cluster, u32)> {
        let mut nth = 0;
        std::iter::from_fn(move || {
            let start = self.find(nth, self.clusters, ClusterUse::Free)?;
            let end = self.find(start, self.clusters, ClusterUse::InUse);
            nth = end.unwrap_or(self.clusters);
            Some((Cluster(2).plus(start), nth.saturating_sub(start)))
        })
    }

    /// Returns the first run of free clusters at or after `from`, among the first `clusters`
    /// clusters: its first cluster and its length.
    pub fn free_run(&self, from: Cluster, clusters: u32) -> Option<(Cluster, u32)> {
        self.run(from, clusters, ClusterUse::Free, ClusterUse::InUse)
    }

    /// Returns the first run of used clusters at or after `from`, among the first `clusters`
    /// clusters: its first cluster and its length.
    pub fn used_run(&self, from: Cluster, clusters: u32) -> Option<(Cluster, u32)> {
        self.run(from, clusters, ClusterUse::InUse, ClusterUse::Free)
    }

    fn run(
        &self,
        from: Cluster,
        clusters: u32,
        wanted: ClusterUse,
        other: ClusterUse,
    ) -> Option<(Cluster, u32)> {
        let limit = clusters.min(self.clusters);
        let start = self.find(from.0.saturating_sub(2), limit, wanted)?;
        let end = self.find(start, limit, other).unwrap_or(limit);
        Some((Cluster(2).plus(start), end.saturating_sub(start)))
    }

    /// Returns true if the cluster is in use or does not exist.
    pub fn is_in_use(&self, cluster: Cluster) -> bool {
        let nth = cluster.0.checked_sub(2);
        nth.is_none_or(|nth| nth >= self.clusters || self.is_used(nth))
    }

    /// Returns the first free cluster at or after index `nth`; wraps around to the beginning.
    fn next_free(&self, nth: u32) -> Option<u32> {
        self.find(nth, self.clusters, ClusterUse::Free)
            .or_else(|| self.find(0, nth.min(self.clusters), ClusterUse::Free))
    }

    /// Returns the first cluster in `nth..end` with this use.
    fn find(&self, mut nth: u32, end: u32, wanted: ClusterUse) -> Option<u32> {
        let other = match wanted {
            ClusterUse::Free => u8::MAX,
            ClusterUse::InUse => 0,
        };
        while nth < end {
            let at = index(nth / 8);
            if nth.is_multiple_of(64) && array(&self.used, at) == Some([other; 8]) {
                nth = nth.saturating_add(64);
            } else if nth.is_multiple_of(8) && self.used.get(at) == Some(&other) {
                nth = nth.saturating_add(8);
            } else if self.is_used(nth) == (wanted == ClusterUse::Free) {
                nth = nth.saturating_add(1);
            } else {
                return Some(nth);
            }
        }
        None
    }

    /// Frees the clusters of a chain.
    pub fn free_chain(&mut self, chain: &Chain) {
        for cluster in chain.runs().iter().flat_map(Run::clusters) {
            self.mark(cluster, false);
        }
    }
}

/// Counts the set bits among the first `clusters` bits.
pub fn count_used(bits: &[u8], clusters: u32) -> u32 {
    let mut left = clusters;
    let mut used: u32 = 0;
    for byte in bits {
        let valid = if left >= 8 {
            u8::MAX
        } else {
            !u8::MAX.wrapping_shl(left)
        };
        used = used.saturating_add((byte & valid).count_ones());
        left = left.saturating_sub(8);
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_runs_end_at_used_clusters_and_at_the_end() {
        let mut used = vec![0xff; 40];
        used[8..24].fill(0);
        used[39] = 0x0f;
        let runs = Allocation::from_bits(used, 319).into_free_runs();
        let runs: Vec<_> = runs.map(|(first, count)| (first.0, count)).collect();
        assert_eq!(runs, [(66, 128), (318, 3)]);
    }

    #[test]
    fn bits_behind_the_last_cluster_do_not_count() {
        let mut allocation = Allocation::from_bits(vec![0x0f, 0xf8], 11);
        assert_eq!((allocation.free(), allocation.bits().len()), (7, 2));
        let chain = allocation.allocate(7, Some(Cluster(9))).unwrap();
        let runs = chain.runs().iter().map(|run| (run.first.0, run.count));
        assert_eq!(runs.collect::<Vec<_>>(), [(10, 3), (6, 4)]);
        assert!(allocation.allocate(1, None).is_none());
        allocation.free_chain(&chain);
        assert_eq!((allocation.free(), allocation.bits()[1]), (7, 0xf8));
    }
}
