//! The file allocation table (exFAT specification, 4.1). It tells the chains of files that are not in
//! one piece, and of those that have no flag for it; what is free stands in the bitmap.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster, Corrupt, Run, TablePages};

use crate::boot_sector::BootSector;
use crate::bytes::le32;
use crate::error::Result;

/// What ends a chain.
pub(crate) const END: u32 = 0xffff_ffff;

/// The table that is in use.
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

    /// Follows a chain to its end.
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

    /// Makes the table tell a whole chain.
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

    /// Returns how many sectors differ from what the device has.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.pages.dirty_sectors()
    }

    /// Writes what differs.
    pub(crate) fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        self.pages.write_dirty(device)
    }

    /// Forgets what differs from what the device has.
    pub(crate) fn forget_changes(&self) {
        self.pages.forget_changes();
    }
}
