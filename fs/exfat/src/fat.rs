//! The file allocation table (exFAT specification, 4.1). It has the chains of files whose clusters
//! are not consecutive, or that lack the flag for it. Free clusters are in the bitmap only.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster, Corrupt, Run, TablePages};

use crate::boot_sector::BootSector;
use crate::bytes::le32;
use crate::error::Result;

/// The entry of a chain's last cluster.
pub(crate) const END: u32 = 0xffff_ffff;

/// The entry of a bad cluster.
pub(crate) const BAD: u32 = 0xffff_fff7;

/// The file allocation table that is in use.
#[derive(Debug)]
pub(crate) struct FatTable {
    clusters: u32,
    pages: TablePages,
}

impl FatTable {
    pub(crate) fn new(device: Arc<dyn BlockRead>, boot: &BootSector) -> Self {
        let geometry = &boot.geometry;
        let entries = u64::from(geometry.clusters).saturating_add(2);
        let len_bytes = entries.saturating_mul(4);
        let copies = vec![boot.fat_offset];
        Self {
            clusters: geometry.clusters,
            pages: TablePages::new(device, copies, len_bytes, geometry.sector_bytes),
        }
    }

    /// Reads a chain to its end.
    pub(crate) fn chain(&self, first: Cluster) -> Result<Chain> {
        Chain::walk(first, |cluster| match self.raw(cluster)? {
            END => Ok(None),
            next if self.contains(next) => Ok(Some(Cluster(next))),
            value => Err(Corrupt::Link {
                first,
                cluster,
                value,
            }
            .into()),
        })
    }

    fn contains(&self, number: u32) -> bool {
        number.checked_sub(2).is_some_and(|nth| nth < self.clusters)
    }

    /// Returns the entry of a cluster.
    pub(crate) fn raw(&self, cluster: Cluster) -> Result<u32> {
        let at = u64::from(cluster.0).saturating_mul(4);
        self.pages.read(at, |page, at| le32(page, at).unwrap_or(0))
    }

    /// Changes an entry in memory.
    pub(crate) fn set(&self, cluster: Cluster, value: u32) -> Result<()> {
        let at = u64::from(cluster.0).saturating_mul(4);
        self.pages.change(at, |_, _| value.to_le_bytes())
    }

    /// Writes all entries of a chain, in memory.
    pub(crate) fn set_chain(&self, chain: &Chain) -> Result<()> {
        let mut before: Option<Cluster> = None;
        for cluster in chain.runs().iter().flat_map(Run::clusters) {
            if let Some(before) = before {
                self.set(before, cluster.0)?;
            }
            before = Some(cluster);
        }
        before.map_or(Ok(()), |last| self.set(last, END))
    }

    /// Returns the number of changed sectors.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.pages.dirty_sectors()
    }

    /// Writes the changed sectors.
    pub(crate) fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        self.pages.write_dirty(device)
    }

    /// Discards all changes that have not been written.
    pub(crate) fn forget_changes(&self) {
        self.pages.forget_changes();
    }
}
