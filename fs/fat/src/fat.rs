//! The file allocation table (fatgen103, "FAT Data Structure").

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster};

use crate::boot_sector::{BootSector, FatKind};
use crate::bytes::{index, le16, le32, len_u64, put};
use crate::error::{Corrupt, Result, device_failed};

/// What is read of the table at once: all of it in FAT12, whose entries lie across bytes.
const PAGE_BYTES: u64 = 64 * 1024;
/// How many pages are kept: 4 MiB, or the entries of a million clusters in FAT32. Changed ones are
/// kept until they are written, whatever their number.
const MAX_PAGES: usize = 64;

/// The bit of the second entry that is set when all was written (fatgen103, "FAT Data Structure",
/// `ClnShutBitMask`); none in FAT12.
pub(crate) const fn clean_bit(kind: FatKind) -> u32 {
    match kind {
        FatKind::Fat12 => 0,
        FatKind::Fat16 => 0x8000,
        FatKind::Fat32 => 0x0800_0000,
    }
}

/// What an entry says of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FatEntry {
    Free,
    /// The chain goes on there.
    Next(Cluster),
    /// The chain's last.
    End,
    /// Bad, reserved, or no cluster at all.
    Other(u32),
}

/// The table. One copy is read, all are written.
#[derive(Debug)]
pub(crate) struct FatTable {
    device: Arc<dyn BlockRead>,
    kind: FatKind,
    clusters: u32,
    /// Where the copies are; the first of them is read.
    copies: Vec<u64>,
    len_bytes: u64,
    sector_bytes: u64,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    by_number: BTreeMap<u64, Vec<u8>>,
    /// Sectors of the table that differ from the device's.
    dirty: BTreeSet<u64>,
}

/// Where an entry is: page, byte within the page.
type Position = (u64, usize);

impl FatTable {
    pub(crate) fn new(device: Arc<dyn BlockRead>, boot: &BootSector) -> Self {
        let copy = |nth: u8| {
            let before = boot.fat_bytes.saturating_mul(nth.into());
            boot.fat_offset.saturating_add(before)
        };
        let copies = match boot.active_fat {
            Some(active) => vec![copy(active)],
            None => (0..boot.fats).map(copy).collect(),
        };
        Self {
            device,
            kind: boot.kind,
            clusters: boot.clusters,
            copies,
            len_bytes: boot.fat_bytes,
            sector_bytes: boot.sector_bytes.into(),
            pages: Mutex::default(),
        }
    }

    /// What the table says of a cluster.
    pub(crate) fn entry(&self, cluster: Cluster) -> Result<FatEntry> {
        Ok(self.decode(self.raw(cluster)?))
    }

    /// Follows a chain to its end.
    pub(crate) fn chain(&self, first: Cluster) -> Result<Chain> {
        Chain::walk(first, |cluster| match self.entry(cluster)? {
            FatEntry::Next(next) => Ok(Some(next)),
            FatEntry::End => Ok(None),
            FatEntry::Free | FatEntry::Other(_) => {
                let value = self.raw(cluster)?;
                Err(Corrupt::Link {
                    first,
                    cluster,
                    value,
                }
                .into())
            }
        })
    }

    /// The entry's bits: 12, 16 or 28.
    pub(crate) fn raw(&self, cluster: Cluster) -> Result<u32> {
        let (page, at) = self.position(cluster);
        let mut pages = self.lock();
        let bytes = self.page(&mut pages, page)?;
        Ok(self.read_raw(bytes, at, cluster))
    }

    /// Changes an entry in memory.
    pub(crate) fn set(&self, cluster: Cluster, entry: FatEntry) -> Result<()> {
        let raw = match entry {
            FatEntry::Free => 0,
            FatEntry::Next(next) => next.0,
            FatEntry::End => self.mask(),
            FatEntry::Other(raw) => raw,
        };
        self.set_raw(cluster, raw)
    }

    /// As [`set`](Self::set), with the entry's bits. FAT32's upper four stay as they are.
    pub(crate) fn set_raw(&self, cluster: Cluster, raw: u32) -> Result<()> {
        let (page, at) = self.position(cluster);
        let mut pages = self.lock();
        let bytes = self.page(&mut pages, page)?;
        match self.kind {
            FatKind::Fat12 => {
                let old = le16(bytes, at).unwrap_or(0);
                let raw = u16::try_from(raw & 0xfff).unwrap_or(0);
                let new = match cluster.0 % 2 {
                    0 => (old & 0xf000) | raw,
                    _ => (old & 0x000f) | (raw << 4),
                };
                put(bytes, at, &new.to_le_bytes());
            }
            FatKind::Fat16 => {
                let raw = u16::try_from(raw & 0xffff).unwrap_or(0);
                put(bytes, at, &raw.to_le_bytes());
            }
            FatKind::Fat32 => {
                let old = le32(bytes, at).unwrap_or(0);
                let new = (old & 0xf000_0000) | (raw & 0x0fff_ffff);
                put(bytes, at, &new.to_le_bytes());
            }
        }
        let first = page.saturating_mul(PAGE_BYTES).saturating_add(len_u64(at));
        // An entry of FAT12 may lie in two sectors.
        for byte in [first, first.saturating_add(1)] {
            let sector = byte.checked_div(self.sector_bytes).unwrap_or(0);
            pages.dirty.insert(sector);
        }
        Ok(())
    }

    /// Looks at the entries of all clusters in order.
    pub(crate) fn for_each(&self, mut look: impl FnMut(Cluster, FatEntry)) -> Result<()> {
        let mut cluster = Cluster(2);
        let end = Cluster(2).plus(self.clusters);
        while cluster < end {
            let (page, _) = self.position(cluster);
            let pages = self.lock();
            let read;
            let bytes = if let Some(bytes) = pages.by_number.get(&page) {
                bytes
            } else {
                read = self.read_page(page)?;
                &read
            };
            while cluster < end {
                let (of, at) = self.position(cluster);
                if of != page {
                    break;
                }
                look(cluster, self.decode(self.read_raw(bytes, at, cluster)));
                cluster = cluster.plus(1);
            }
        }
        Ok(())
    }

    /// How many sectors differ from what the device has.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.lock().dirty.len()
    }

    /// Writes what differs, to all copies.
    pub(crate) fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        let mut pages = self.lock();
        let dirty = std::mem::take(&mut pages.dirty);
        for sector in dirty {
            let at = sector.saturating_mul(self.sector_bytes);
            let page = at / PAGE_BYTES;
            let within = index(at % PAGE_BYTES);
            let bytes = pages.by_number.get(&page).and_then(|bytes| {
                let left = bytes.get(within..)?;
                left.get(..index(self.sector_bytes).min(left.len()))
            });
            let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
                continue;
            };
            for copy in &self.copies {
                let offset = copy.saturating_add(at);
                device.write_at(offset, bytes).map_err(device_failed)?;
            }
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

    fn position(&self, cluster: Cluster) -> Position {
        let n = u64::from(cluster.0);
        let at = match self.kind {
            FatKind::Fat12 => n.saturating_add(n / 2),
            FatKind::Fat16 => n.saturating_mul(2),
            FatKind::Fat32 => n.saturating_mul(4),
        };
        (at / PAGE_BYTES, index(at % PAGE_BYTES))
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
        let len = self.len_bytes.saturating_sub(at).min(PAGE_BYTES);
        let mut bytes = vec![0; index(len)];
        let start = self.copies.first().copied().unwrap_or(0);
        let offset = start.saturating_add(at);
        if !bytes.is_empty() {
            self.device
                .read_at(offset, &mut bytes)
                .map_err(device_failed)?;
        }
        Ok(bytes)
    }

    fn read_raw(&self, bytes: &[u8], at: usize, cluster: Cluster) -> u32 {
        match self.kind {
            FatKind::Fat12 => {
                let both = u32::from(le16(bytes, at).unwrap_or(0));
                if cluster.0.is_multiple_of(2) {
                    both & 0xfff
                } else {
                    both >> 4
                }
            }
            FatKind::Fat16 => le16(bytes, at).unwrap_or(0).into(),
            FatKind::Fat32 => le32(bytes, at).unwrap_or(0) & 0x0fff_ffff,
        }
    }

    /// All ones: what ends a chain.
    const fn mask(&self) -> u32 {
        match self.kind {
            FatKind::Fat12 => 0xfff,
            FatKind::Fat16 => 0xffff,
            FatKind::Fat32 => 0x0fff_ffff,
        }
    }

    fn decode(&self, raw: u32) -> FatEntry {
        let end = self.mask() & !7;
        match raw {
            0 => FatEntry::Free,
            raw if raw >= end => FatEntry::End,
            raw if raw.checked_sub(2).is_some_and(|nth| nth < self.clusters) => {
                FatEntry::Next(Cluster(raw))
            }
            raw => FatEntry::Other(raw),
        }
    }
}
