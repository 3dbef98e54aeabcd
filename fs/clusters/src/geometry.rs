//! Where clusters are on the device.

use crate::chain::{Chain, Cluster};
use crate::error::Corrupt;
use crate::low32;
use diskfs_vfs::Result;

/// The place of the clusters. The driver has checked that all of them lie within the device.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Bytes of a sector: what is written, or lost, as a whole.
    pub sector_bytes: u32,
    /// Bytes of a cluster.
    pub cluster_bytes: u32,
    /// The number of clusters. The last is `clusters + 1`.
    pub clusters: u32,
    /// The offset of cluster 2.
    pub first_offset: u64,
    /// The root directory.
    pub root: Root,
}

/// The place of the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// Between the tables and the first cluster (FAT12 and FAT16).
    Fixed {
        /// The offset of the first entry.
        offset: u64,
        /// The number of entries.
        entries: u32,
    },
    /// A chain as any directory.
    Chain {
        /// The first cluster.
        first: Cluster,
    },
}

impl Geometry {
    /// Returns whether there is such a cluster.
    pub fn contains(&self, cluster: Cluster) -> bool {
        let nth = cluster.0.checked_sub(2);
        nth.is_some_and(|nth| nth < self.clusters)
    }

    /// Fails unless a chain may begin at this cluster.
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

    /// Returns the offset of a cluster. Clusters that exist lie within the device.
    pub fn offset_of(&self, cluster: Cluster) -> u64 {
        let within = self.bytes_of(cluster.0.saturating_sub(2));
        self.first_offset.saturating_add(within)
    }

    /// Returns how many clusters so many bytes take.
    pub fn clusters_for(&self, len_bytes: u64) -> u32 {
        low32(len_bytes.div_ceil(u64::from(self.cluster_bytes).max(1)))
    }

    /// Returns the length of so many clusters in bytes.
    pub fn bytes_of(&self, clusters: u32) -> u64 {
        u64::from(clusters).saturating_mul(self.cluster_bytes.into())
    }

    /// Returns where the first `len_bytes` of a chain are: offset and length of each run, in bytes.
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
