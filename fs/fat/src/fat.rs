//! The file allocation table (fatgen103, "FAT Data Structure").

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster, Corrupt, PAGE_BYTES, Run, TablePages};

use crate::boot_sector::{BootSector, FatKind};
use crate::bytes::{index, le16, le32};
use crate::error::Result;

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

    /// Returns what the table says of a cluster.
    pub(crate) fn entry(&self, cluster: Cluster) -> Result<FatEntry> {
        Ok(self.decode(self.raw(cluster)?))
    }

    /// Follows a chain to its end.
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

    /// Returns the entry's bits: 12, 16 or 28.
    pub(crate) fn raw(&self, cluster: Cluster) -> Result<u32> {
        let read = |page: &[u8], at: usize| self.read_raw(page, at, cluster);
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

    /// As [`set`](Self::set), with the entry's bits. FAT32's upper four stay as they are.
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

    /// Makes the table tell a whole chain.
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

    /// Looks at the entries of all clusters in order.
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

    /// Returns how many sectors differ from what the device has.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.pages.dirty_sectors()
    }

    /// Writes what differs, to all copies.
    pub(crate) fn write_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        self.pages.write_dirty(device)
    }

    /// Forgets what differs from what the device has.
    pub(crate) fn forget_changes(&self) {
        self.pages.forget_changes();
    }

    /// Returns the byte at which an entry begins.
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
