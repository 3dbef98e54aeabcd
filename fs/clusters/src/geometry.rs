//! The layout of the clusters on the device.

use crate::chain::{Chain, Cluster};
use crate::error::Corrupt;
use crate::low32;
use diskfs_vfs::Result;

/// The location and size of the clusters. The driver has checked that all of them are within the
/// device.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// The sector size in bytes: the unit that is written, or lost, as a whole.
    pub sector_bytes: u32,
    /// The cluster size in bytes.
    pub cluster_bytes: u32,
    /// The number of clusters. The last one has number `clusters + 1`.
    pub clusters: u32,
    /// The offset of cluster 2, the first one, in bytes.
    pub first_offset: u64,
    /// The location of the root directory.
    pub root: Root,
}

/// The location of the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A fixed area between the tables and the first cluster (FAT12 and FAT16).
    Fixed {
        /// The offset of the first entry in bytes.
        offset: u64,
        /// The number of entries.
        entries: u32,
    },
    /// A cluster chain, as other directories have (FAT32 and exFAT).
    Chain {
        /// The first cluster.
        first: Cluster,
    },
}

impl Geometry {
    /// Returns true if the cluster exists.
    pub fn contains(&self, cluster: Cluster) -> bool {
        let nth = cluster.0.checked_sub(2);
        nth.is_some_and(|nth| nth < self.clusters)
    }

    /// Fails unless the cluster exists, so that a chain may start with it.
    ///
    /// # Errors
    /// `Corrupt` for a cluster that does not exist.
    pub fn check_first(&self, cluster: Cluster) -> Result<()> {
        if self.contains(cluster) {
            return Ok(());
        }
        Err(Corrupt::FirstCluster {
            cluster,
            clusters: self.clusters,
        }
        .into())
    }

    /// Returns the offset of a cluster in bytes. Clusters that exist are within the device.
    pub fn offset_of(&self, cluster: Cluster) -> u64 {
        let within = self.bytes_of(cluster.0.saturating_sub(2));
        self.first_offset.saturating_add(within)
    }

    /// Returns the number of clusters that `len_bytes` bytes need.
    pub fn clusters_for(&self, len_bytes: u64) -> u32 {
        low32(len_bytes.div_ceil(u64::from(self.cluster_bytes).max(1)))
    }

    /// Returns the length in bytes of `clusters` clusters.
    pub fn bytes_of(&self, clusters: u32) -> u64 {
        u64::from(clusters).saturating_mul(self.cluster_bytes.into())
    }

    /// Returns the location of the first `len_bytes` of a chain: offset and length of each run, in
    /// bytes.
    pub fn runs(&self, chain: &Chain, len_bytes: u64) -> Vec<(u64, u64)> {
        let mut left = len_bytes;
        let runs = chain.runs().iter().map(|run| {
            let len_bytes = self.bytes_of(run.count).min(left);
            left = left.saturating_sub(len_bytes);
            (self.offset_of(run.first), len_bytes)
        });
        runs.filter(|(_, len_bytes)| *len_bytes > 0).collect()
    }
}
