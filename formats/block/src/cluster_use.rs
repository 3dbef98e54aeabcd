//! The clusters of an image's file that its tables refer to.

use crate::bytes::index;
use crate::{Error, Result};

/// The largest number of clusters of a set: 64 MiB of memory, and a file of 32 TiB at QEMU's
/// default size of 64 KiB.
const CLUSTERS_MAX: u64 = 1 << 29;

/// The use of an image's clusters, as the check of its tables counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterUse {
    /// The number of clusters of the guest's disk.
    pub total: u64,
    /// The number of guest clusters that are allocated.
    pub allocated: u64,
    /// The number of allocated clusters that do not follow the one before them in the file.
    pub fragmented: u64,
    /// The number of clusters of the file that no table refers to.
    pub leaked: u64,
    /// The end of the last cluster in use, in bytes from the start of the file; 0 if it was not
    /// determined.
    pub end_bytes: u64,
}

/// A set of the clusters of a file, with one bit for each.
#[derive(Debug)]
pub struct ClusterSet {
    words: Vec<u64>,
    clusters: u64,
}

impl ClusterSet {
    /// Creates an empty set for the clusters before this number.
    ///
    /// # Errors
    /// `Unsupported` for more clusters than are counted.
    pub fn new(clusters: u64) -> Result<Self> {
        if clusters > CLUSTERS_MAX {
            let reason = format!("a file of {clusters} clusters is too large for a check");
            return Err(Error::unsupported(reason));
        }
        Ok(Self {
            words: vec![0; index(clusters.div_ceil(64))],
            clusters,
        })
    }

    /// Returns the number of clusters of the file.
    pub const fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Adds a cluster; returns false if the set has it already. A cluster past the end of the file
    /// is never in the set.
    pub fn insert(&mut self, cluster: u64) -> bool {
        let bit = 1_u64.rotate_left(u32::try_from(cluster % 64).unwrap_or(0));
        let word = self.words.get_mut(index(cluster / 64));
        let Some(word) = word.filter(|_| cluster < self.clusters) else {
            return true;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Returns the number of clusters in the set.
    pub fn count(&self) -> u64 {
        let ones = self.words.iter().map(|word| u64::from(word.count_ones()));
        ones.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_cluster_is_new_once() {
        let mut set = ClusterSet::new(70).unwrap();
        for cluster in [0, 63, 64, 69] {
            assert!(set.insert(cluster));
            assert!(!set.insert(cluster));
        }
        assert!(set.insert(70) && set.insert(70) && set.insert(u64::MAX));
        assert_eq!((set.count(), set.clusters()), (4, 70));
        let error = ClusterSet::new(u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
