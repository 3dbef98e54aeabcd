//! The file allocation table (fatgen103, "FAT Data Structure").

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster, Corrupt, PAGE_BYTES, Run, TablePages};

use crate::boot_sector::{BootSector, FatKind};
use crate::bytes::{index, le16, le32};
use crate::error::Result;

/// Returns the bit of the second entry that is set when the filesystem is clean (fatgen103, "FAT
/// Data Structure", `ClnShutBitMask`); 0 for FAT12, which has no such bit.
pub(crate) const fn clean_bit(kind: FatKind) -> u32 {
    match kind {
        FatKind::Fat12 => 0,
        FatKind::Fat16 => 0x8000,
        FatKind::Fat32 => 0x0800_0000,
    }
}

/// A decoded entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FatEntry {
    Free,
    /// The next cluster of the chain.
    Next(Cluster),
    /// The end of a chain.
    End,
    /// A bad or reserved cluster, or an invalid cluster number.
    Other(u32),
}

/// The file allocation table. The first copy is read, all copies are written.
#[derive(Debug)]
pub(crate) struct FatTable {
    kind: FatKind,
    clusters: u32,
    pages: TablePages,
}

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
        let geometry = &boot.geometry;
        Self {
            kind: boot.kind,
            clusters: geometry.clusters,
            pages: TablePages::new(device, copies, boot.fat_bytes, geometry.sector_bytes),
        }
    }

    /// Returns the entry of a cluster.
    pub(crate) fn entry(&self, cluster: Cluster) -> Result<FatEntry> {
        Ok(self.decode(self.raw(cluster)?))
    }

    /// Reads a chain to its end.
    pub(crate) fn chain(&self, first: Cluster) -> Result<Chain> {
        Chain::walk(first, |cluster| {
            let value = self.raw(cluster)?;
            match self.decode(value) {
                FatEntry::Next(next) => Ok(Some(next)),
                FatEntry::End => Ok(None),
                FatEntry::Free | FatEntry::Other(_) => Err(Corrupt::Link {
                    first,
                    cluster,
                    value,
                }
                .into()),
            }
        })
    }

    /// Returns the bits of an entry: 12, 16 or 28.
    pub(crate) fn raw(&self, cluster: Cluster) -> Result<u32> {
        let read = |page: &[u8], at: usize| self.read_raw(page, at, cluster);
        self.pages.read(self.position(cluster), read)
    }

    /// Returns all bits of an entry: on FAT32 32, of which the upper four are reserved.
    pub(crate) fn whole(&self, cluster: Cluster) -> Result<u32> {
        let read = |page: &[u8], at: usize| match self.kind {
            FatKind::Fat32 => le32(page, at).unwrap_or(0),
            _ => self.read_raw(page, at, cluster),
        };
        self.pages.read(self.position(cluster), read)
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

    /// Changes an entry as [`set`](Self::set) does, given its bits. The upper four bits on FAT32
    /// stay unchanged.
    pub(crate) fn set_raw(&self, cluster: Cluster, raw: u32) -> Result<()> {
        let at = self.position(cluster);
        let [b0, b1, ..] = raw.to_le_bytes();
        let low = u16::from_le_bytes([b0, b1]);
        match self.kind {
            FatKind::Fat12 => self.pages.change(at, |page, at| {
                let old = le16(page, at).unwrap_or(0);
                let new = match cluster.0 % 2 {
                    0 => (old & 0xf000) | (low & 0xfff),
                    _ => (old & 0x000f) | (low << 4),
                };
                new.to_le_bytes()
            }),
            FatKind::Fat16 => self.pages.change(at, |_, _| low.to_le_bytes()),
            FatKind::Fat32 => self.pages.change(at, |page, at| {
                let old = le32(page, at).unwrap_or(0);
                let new = (old & 0xf000_0000) | (raw & 0x0fff_ffff);
                new.to_le_bytes()
            }),
        }
    }

    /// Writes all entries of a chain, in memory.
    pub(crate) fn set_chain(&self, chain: &Chain) -> Result<()> {
        let mut before: Option<Cluster> = None;
        for cluster in chain.runs().iter().flat_map(Run::clusters) {
            if let Some(before) = before {
                self.set(before, FatEntry::Next(cluster))?;
            }
            before = Some(cluster);
        }
        before.map_or(Ok(()), |last| self.set(last, FatEntry::End))
    }

    /// Calls `look` with the entry of each cluster in order.
    pub(crate) fn for_each(&self, mut look: impl FnMut(Cluster, FatEntry)) -> Result<()> {
        let mut cluster = Cluster(2);
        let end = Cluster(2).plus(self.clusters);
        while cluster < end {
            let number = self.position(cluster) / PAGE_BYTES;
            cluster = self.pages.peek(number, |page| {
                let mut cluster = cluster;
                while cluster < end {
                    let at = self.position(cluster);
                    if at / PAGE_BYTES != number {
                        break;
                    }
                    let raw = self.read_raw(page, index(at % PAGE_BYTES), cluster);
                    look(cluster, self.decode(raw));
                    cluster = cluster.plus(1);
                }
                cluster
            })?;
        }
        Ok(())
    }

    /// Returns the number of changed sectors.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.pages.dirty_sectors()
    }

    /// Writes the changed sectors to all copies.
    pub(crate) fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        self.pages.write_dirty(device)
    }

    /// Discards all changes that have not been written.
    pub(crate) fn forget_changes(&self) {
        self.pages.forget_changes();
    }

    /// Returns the byte of the table at which an entry starts.
    fn position(&self, cluster: Cluster) -> u64 {
        let n = u64::from(cluster.0);
        match self.kind {
            FatKind::Fat12 => n.saturating_add(n / 2),
            FatKind::Fat16 => n.saturating_mul(2),
            FatKind::Fat32 => n.saturating_mul(4),
        }
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

    /// Returns a value of all ones, which ends a chain.
    pub(crate) const fn mask(&self) -> u32 {
        match self.kind {
            FatKind::Fat12 => 0xfff,
            FatKind::Fat16 => 0xffff,
            FatKind::Fat32 => 0x0fff_ffff,
        }
    }

    /// Decodes the bits of an entry: 12, 16 or 28.
    pub(crate) fn decode(&self, raw: u32) -> FatEntry {
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
