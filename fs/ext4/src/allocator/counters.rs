//! Counters of free clusters and inodes in the whole filesystem.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters. An allocation first takes its clusters from here, so that two threads cannot both
/// get the last ones.
#[derive(Debug, Default)]
pub(super) struct Counters {
    free_clusters: AtomicU64,
    free_inodes: AtomicU64,
    directories: AtomicU64,
    /// The number of free clusters that were freed by a transaction that is not durable yet.
    held_clusters: AtomicU64,
}

/// The sums over all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    /// The number of free blocks, including those that are usable only after a commit.
    pub(crate) free_blocks: u64,
    pub(crate) free_inodes: u64,
    pub(crate) directories: u64,
}

impl Counters {
    pub(super) fn add(&self, free_clusters: u32, free_inodes: u32, directories: u32) {
        self.add_free(u64::from(free_clusters));
        self.free_inodes
            .fetch_add(u64::from(free_inodes), Ordering::SeqCst);
        self.directories
            .fetch_add(u64::from(directories), Ordering::SeqCst);
    }

    pub(super) fn totals(&self, cluster_bits: u32) -> Totals {
        Totals {
            free_blocks: self.free_clusters().wrapping_shl(cluster_bits),
            free_inodes: self.free_inodes(),
            directories: self.directories(),
        }
    }

    pub(super) fn free_clusters(&self) -> u64 {
        self.free_clusters.load(Ordering::SeqCst)
    }

    pub(super) fn free_inodes(&self) -> u64 {
        self.free_inodes.load(Ordering::SeqCst)
    }

    pub(super) fn directories(&self) -> u64 {
        self.directories.load(Ordering::SeqCst)
    }

    pub(super) fn held_clusters(&self) -> u64 {
        self.held_clusters.load(Ordering::SeqCst)
    }

    /// Takes up to `wanted` clusters, but leaves `floor` free. Returns `None` if it cannot take
    /// any.
    pub(super) fn claim(&self, wanted: u32, floor: u64) -> Option<u32> {
        let mut claimed = 0;
        let take = |free: u64| {
            let left = free.saturating_sub(floor).min(u64::from(wanted));
            claimed = u32::try_from(left).unwrap_or(wanted);
            (claimed > 0).then(|| free.saturating_sub(left))
        };
        let taken = self
            .free_clusters
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        taken.ok().map(|_| claimed)
    }

    /// Returns clusters to the counter: claimed but not used, or freed.
    pub(super) fn add_free(&self, clusters: u64) {
        self.free_clusters.fetch_add(clusters, Ordering::SeqCst);
    }

    pub(super) fn hold(&self, clusters: u32) {
        self.held_clusters
            .fetch_add(u64::from(clusters), Ordering::SeqCst);
    }

    pub(super) fn release(&self, clusters: u32) {
        lower(&self.held_clusters, clusters);
    }

    pub(super) fn take_inode(&self, directories: u32) {
        lower(&self.free_inodes, 1);
        self.directories
            .fetch_add(u64::from(directories), Ordering::SeqCst);
    }

    pub(super) fn free_inode(&self, directories: u32) {
        self.free_inodes.fetch_add(1, Ordering::SeqCst);
        lower(&self.directories, directories);
    }
}

/// Subtracts `by` from a counter. It cannot go below zero, because the groups' own counts are
/// checked.
fn lower(count: &AtomicU64, by: u32) {
    let less = |count: u64| Some(count.saturating_sub(u64::from(by)));
    // The closure always returns `Some`, so the update cannot fail.
    let _ = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_leave_the_floor() {
        let counters = Counters::default();
        counters.add(10, 1, 0);
        assert_eq!(counters.claim(4, 3), Some(4));
        assert_eq!(counters.claim(4, 3), Some(3));
        assert_eq!(counters.claim(1, 3), None);
        assert_eq!(counters.claim(5, 0), Some(3));
        counters.add_free(2);
        assert_eq!(counters.totals(2).free_blocks, 8);
    }
}
