//! The file allocation table (exFAT specification, 4.1). It tells the chains of files that are not in
//! one piece, and of those that have no flag for it; what is free stands in the bitmap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster};

use crate::boot_sector::BootSector;
use crate::bytes::{index, le32, put};
use crate::error::{Corrupt, Result, device_failed};

/// What is read of the table at once.
const PAGE_BYTES: u64 = 64 * 1024;
/// How many pages are kept: 4 MiB, or the entries of a million clusters. Changed ones are kept until
/// they are written, whatever their number.
const MAX_PAGES: usize = 64;
/// What ends a chain.
pub(crate) const END: u32 = 0xffff_ffff;

/// The table that is in use.
#[derive(Debug)]
pub(crate) struct FatTable {
    device: Arc<dyn BlockRead>,
    clusters: u32,
    offset: u64,
    sector_bytes: u64,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    by_number: BTreeMap<u64, Vec<u8>>,
    /// Sectors of the table that differ from the device's.
    dirty: BTreeSet<u64>,
}

impl FatTable {
    pub(crate) fn new(device: Arc<dyn BlockRead>, boot: &BootSector) -> Self {
        Self {
            device,
            clusters: boot.clusters,
            offset: boot.fat_offset,
            sector_bytes: boot.sector_bytes.into(),
            pages: Mutex::default(),
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

    /// The entry of a cluster.
    pub(crate) fn raw(&self, cluster: Cluster) -> Result<u32> {
        let at = u64::from(cluster.0).saturating_mul(4);
        let mut pages = self.lock();
        let bytes = self.page(&mut pages, at / PAGE_BYTES)?;
        Ok(le32(bytes, index(at % PAGE_BYTES)).unwrap_or(0))
    }

    /// Changes an entry in memory.
    pub(crate) fn set(&self, cluster: Cluster, value: u32) -> Result<()> {
        let at = u64::from(cluster.0).saturating_mul(4);
        let mut pages = self.lock();
        let bytes = self.page(&mut pages, at / PAGE_BYTES)?;
        put(bytes, index(at % PAGE_BYTES), &value.to_le_bytes());
        let sector = at.checked_div(self.sector_bytes).unwrap_or(0);
        pages.dirty.insert(sector);
        Ok(())
    }

    /// Makes the table tell a whole chain.
    pub(crate) fn set_chain(&self, chain: &Chain) -> Result<()> {
        let mut before: Option<Cluster> = None;
        for cluster in chain.runs().iter().flat_map(diskfs_clusters::Run::clusters) {
            if let Some(before) = before {
                self.set(before, cluster.0)?;
            }
            before = Some(cluster);
        }
        before.map_or(Ok(()), |last| self.set(last, END))
    }

    /// How many sectors differ from what the device has.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.lock().dirty.len()
    }

    /// Writes what differs.
    pub(crate) fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        let mut pages = self.lock();
        for sector in std::mem::take(&mut pages.dirty) {
            let at = sector.saturating_mul(self.sector_bytes);
            let within = index(at % PAGE_BYTES);
            let end = within.saturating_add(index(self.sector_bytes));
            let page = pages.by_number.get(&(at / PAGE_BYTES));
            let Some(bytes) = page.and_then(|page| page.get(within..end.min(page.len()))) else {
                continue;
            };
            let offset = self.offset.saturating_add(at);
            device.write_at(offset, bytes).map_err(device_failed)?;
        }
        Ok(())
    }

    /// Forgets what differs from what the device has.
    pub(crate) fn forget_changes(&self) {
        *self.lock() = Pages::default();
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page<'a>(&self, pages: &'a mut Pages, number: u64) -> Result<&'a mut Vec<u8>> {
        if !pages.by_number.contains_key(&number) {
            if pages.by_number.len() >= MAX_PAGES && pages.dirty.is_empty() {
                pages.by_number.clear();
            }
            let bytes = self.read_page(number)?;
            pages.by_number.insert(number, bytes);
        }
        Ok(pages.by_number.entry(number).or_default())
    }

    fn read_page(&self, number: u64) -> Result<Vec<u8>> {
        let at = number.saturating_mul(PAGE_BYTES);
        let entries = u64::from(self.clusters).saturating_add(2);
        let len_bytes = entries.saturating_mul(4).saturating_sub(at);
        let mut bytes = vec![0; index(len_bytes.min(PAGE_BYTES))];
        let offset = self.offset.saturating_add(at);
        self.device
            .read_at(offset, &mut bytes)
            .map_err(device_failed)?;
        Ok(bytes)
    }
}
