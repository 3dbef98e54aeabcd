//! The layout of a new filesystem.

use std::ops::RangeInclusive;

use diskfs_clusters::ENTRY_BYTES;

use crate::boot_sector::{FAT12_CLUSTERS, FAT16_CLUSTERS, FAT32_LAST_CLUSTER, FatKind};
use crate::bytes::low32;
use crate::error::{Error, ErrorKind, Result};

use super::FormatOptions;

/// The sectors of `FSInfo` and of the copies, on FAT32 (fatgen103, "`BPB_FSInfo`",
/// "`BPB_BkBootSec`").
pub(super) const FS_INFO_SECTOR: u64 = 1;
pub(super) const BACKUP_SECTOR: u64 = 6;
/// The number of sectors before the tables on FAT32 ("`BPB_RsvdSecCnt`").
const RESERVED_32: u64 = 32;
/// The number of entries of a fixed root directory ("`BPB_RootEntCnt`").
const ROOT_ENTRIES: u64 = 512;
const TABLES: u64 = 2;
const MAX_CLUSTER_SECTORS: u64 = 128;
/// The largest cluster that all drivers support ("`BPB_SecPerClus`").
const MAX_CLUSTER_BYTES: u64 = 32 * 1024;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The layout of a new filesystem, in sectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) kind: FatKind,
    pub(super) sector_bytes: u64,
    pub(super) total: u64,
    pub(super) reserved: u64,
    pub(super) cluster_sectors: u64,
    pub(super) fat_sectors: u64,
    pub(super) clusters: u32,
}

impl Layout {
    /// Chooses the layout with the smallest clusters that the type allows, but not smaller than
    /// usual.
    pub(super) fn choose(device_bytes: u64, options: &FormatOptions) -> Result<Self> {
        let invalid = |reason: String| Error::new(ErrorKind::Invalid, reason);
        let sector_bytes = u64::from(options.sector_bytes);
        if !sector_bytes.is_power_of_two() || !(512..=4096).contains(&sector_bytes) {
            return Err(invalid(format!(
                "invalid sector size {sector_bytes}: expected 512, 1024, 2048 or 4096"
            )));
        }
        let kind = options.kind.unwrap_or_else(|| usual_kind(device_bytes));
        let sectors = device_bytes.checked_div(sector_bytes).unwrap_or(0);
        let with = |cluster_bytes: u64| {
            let cluster_sectors = cluster_bytes.checked_div(sector_bytes).unwrap_or(0);
            Self::with(
                kind,
                sector_bytes,
                sectors.min(u32::MAX.into()),
                cluster_sectors,
            )
        };
        let found = match options.cluster_bytes.map(u64::from) {
            None => usual_clusters(kind, device_bytes).find_map(with),
            Some(bytes) if bytes.is_power_of_two() => with(bytes),
            Some(bytes) => {
                return Err(invalid(format!(
                    "invalid cluster size {bytes}: expected a power of two"
                )));
            }
        };
        found.ok_or_else(|| {
            let (name, clusters) = (kind.name(), cluster_range(kind));
            let reason = match options.cluster_bytes {
                Some(bytes) => {
                    format!("{name} of {device_bytes} bytes cannot have clusters of {bytes} bytes")
                }
                None => {
                    format!("a device of {device_bytes} bytes is too small or too large for {name}")
                }
            };
            let hint = format!(
                "{name} needs {} to {} clusters; choose another cluster size or type",
                clusters.start(),
                clusters.end()
            );
            invalid(reason).with_hint(hint)
        })
    }

    /// Returns the layout; `None` if some drivers would take it for another type.
    fn with(kind: FatKind, sector_bytes: u64, total: u64, cluster_sectors: u64) -> Option<Self> {
        if !(1..=MAX_CLUSTER_SECTORS).contains(&cluster_sectors) {
            return None;
        }
        let mut layout = Self {
            kind,
            sector_bytes,
            total,
            // Whole clusters, so that the tables and all clusters are aligned to the cluster size.
            reserved: match kind {
                FatKind::Fat32 => RESERVED_32.max(cluster_sectors),
                _ => cluster_sectors,
            },
            cluster_sectors,
            fat_sectors: 0,
            clusters: 0,
        };
        // Computed as if the tables took no space, so a table can have some sectors too many.
        layout.fat_sectors = layout.table_sectors_for(layout.room_for_clusters());
        layout.clusters = layout.room_for_clusters();
        cluster_range(kind)
            .contains(&layout.clusters)
            .then_some(layout)
    }

    fn table_sectors_for(&self, clusters: u32) -> u64 {
        let entries = u64::from(clusters).saturating_add(2);
        let bytes = match self.kind {
            FatKind::Fat12 => entries.saturating_mul(3).div_ceil(2),
            FatKind::Fat16 => entries.saturating_mul(2),
            FatKind::Fat32 => entries.saturating_mul(4),
        };
        let cluster_bytes = self.offset(self.cluster_sectors);
        bytes
            .div_ceil(cluster_bytes.max(1))
            .saturating_mul(self.cluster_sectors)
    }

    fn room_for_clusters(&self) -> u32 {
        let left = self.total.saturating_sub(self.data_sector());
        low32(left.checked_div(self.cluster_sectors).unwrap_or(0))
    }

    /// Returns the offset of a sector in bytes.
    pub(super) fn offset(&self, sector: u64) -> u64 {
        sector.saturating_mul(self.sector_bytes)
    }

    /// Returns the first sector of each table.
    pub(super) fn tables(&self) -> impl Iterator<Item = u64> {
        let (first, each) = (self.reserved, self.fat_sectors);
        (0..TABLES).map(move |nth| first.saturating_add(each.saturating_mul(nth)))
    }

    /// Returns the sector after the tables: the root directory or, on FAT32, the first cluster.
    pub(super) fn root_sector(&self) -> u64 {
        let tables = self.fat_sectors.saturating_mul(TABLES);
        self.reserved.saturating_add(tables)
    }

    /// Returns the number of entries of the fixed root directory.
    pub(super) const fn root_entries(&self) -> u64 {
        match self.kind {
            FatKind::Fat32 => 0,
            _ => ROOT_ENTRIES,
        }
    }

    /// Returns the first sector of the clusters.
    fn data_sector(&self) -> u64 {
        let root_bytes = self.root_entries().saturating_mul(ENTRY_BYTES);
        let root_sectors = root_bytes.div_ceil(self.sector_bytes.max(1));
        self.root_sector().saturating_add(root_sectors)
    }

    /// Returns the first sector that an empty filesystem does not use.
    pub(super) fn first_free_sector(&self) -> u64 {
        match self.kind {
            FatKind::Fat32 => self.data_sector().saturating_add(self.cluster_sectors),
            _ => self.data_sector(),
        }
    }
}

/// Returns the numbers of clusters that make a filesystem this type. FAT32 may have fewer than
/// 65,525 on small disks (fatgen103 forbids it, but every driver reads it); its root directory
/// needs at least one cluster.
const fn cluster_range(kind: FatKind) -> RangeInclusive<u32> {
    const FAT12_MOST: u32 = FAT12_CLUSTERS - 1;
    const FAT16_MOST: u32 = FAT16_CLUSTERS - 1;
    // The first cluster has number 2, the last FAT32_LAST_CLUSTER.
    const FAT32_MOST: u32 = FAT32_LAST_CLUSTER - 1;
    match kind {
        FatKind::Fat12 => 1..=FAT12_MOST,
        FatKind::Fat16 => FAT12_CLUSTERS..=FAT16_MOST,
        FatKind::Fat32 => 2..=FAT32_MOST,
    }
}

/// Returns the usual type for a device of this size.
const fn usual_kind(device_bytes: u64) -> FatKind {
    match device_bytes {
        bytes if bytes < 8 * MIB => FatKind::Fat12,
        bytes if bytes < 512 * MIB => FatKind::Fat16,
        _ => FatKind::Fat32,
    }
}

/// Returns the cluster sizes to try, the best first (fatgen103, "`DskTableFAT16`",
/// "`DskTableFAT32`").
fn usual_clusters(kind: FatKind, device_bytes: u64) -> impl Iterator<Item = u64> {
    let usual = match kind {
        FatKind::Fat12 | FatKind::Fat16 => 2048,
        FatKind::Fat32 if device_bytes <= 260 * MIB => 512,
        FatKind::Fat32 if device_bytes <= 8 * GIB => 4096,
        FatKind::Fat32 if device_bytes <= 16 * GIB => 8192,
        FatKind::Fat32 if device_bytes <= 32 * GIB => 16384,
        FatKind::Fat32 => MAX_CLUSTER_BYTES,
    };
    let powers = (9..=15).map(|bits| 1_u64 << bits);
    let larger = powers.clone().filter(move |bytes| *bytes >= usual);
    larger.chain(powers.rev().filter(move |bytes| *bytes < usual))
}
