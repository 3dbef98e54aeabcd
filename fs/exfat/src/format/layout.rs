//! The layout of a new filesystem, as `mkfs.exfat` chooses it.

use diskfs_clusters::Cluster;

use crate::boot_sector::{CLUSTER_SHIFTS, MAX_CLUSTERS, REGION_SECTORS, SECTOR_SHIFTS};
use crate::bytes::{len_u64, low32};
use crate::error::{Error, ErrorKind, Result};
use crate::upcase_table::RECOMMENDED;

use super::FormatOptions;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The size of the smallest volume in bytes (exFAT specification, 3.1.5).
const MIN_VOLUME_BYTES: u64 = MIB;
/// The alignment of the table and the clusters. Small volumes have a smaller one.
const BOUNDARY_BYTES: u64 = MIB;
const SMALL_BOUNDARY_BYTES: u64 = 64 * KIB;
const SMALL_VOLUME_BYTES: u64 = 3 * MIB;

/// The layout of a new filesystem: offsets and lengths in bytes, all of them whole sectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) sector_bytes: u32,
    pub(super) cluster_bytes: u32,
    pub(super) volume_bytes: u64,
    pub(super) fat_offset: u64,
    pub(super) fat_bytes: u64,
    pub(super) heap_offset: u64,
    pub(super) clusters: u32,
}

impl Layout {
    pub(super) fn choose(device_bytes: u64, options: &FormatOptions) -> Result<Self> {
        let invalid = |reason: String| Error::new(ErrorKind::Invalid, reason);
        let sector_bytes = options.sector_bytes;
        if !is_shift(sector_bytes, &SECTOR_SHIFTS) {
            let reason = "invalid sector size: expected 512, 1024, 2048 or 4096 bytes";
            return Err(invalid(reason.to_owned()));
        }
        let usual = usual_cluster(device_bytes);
        let cluster_bytes = options.cluster_bytes.unwrap_or(usual);
        if !is_shift(cluster_bytes, &CLUSTER_SHIFTS) || cluster_bytes < sector_bytes {
            let reason =
                "invalid cluster size: expected a power of two from the sector size to 32 MiB";
            return Err(invalid(reason.to_owned()));
        }
        let layout = Self::with(device_bytes, sector_bytes, cluster_bytes);
        if device_bytes < MIN_VOLUME_BYTES || layout.clusters < layout.used_clusters() {
            let reason = format!("a device of {device_bytes} bytes is too small for exFAT");
            return Err(invalid(reason));
        }
        if layout.clusters > MAX_CLUSTERS {
            let reason =
                format!("a device of {device_bytes} bytes has too many clusters for exFAT");
            return Err(invalid(reason).with_hint("choose larger clusters"));
        }
        Ok(layout)
    }

    fn with(device_bytes: u64, sector_bytes: u32, cluster_bytes: u32) -> Self {
        let (sector, cluster) = (u64::from(sector_bytes), u64::from(cluster_bytes));
        let boundary = if device_bytes < SMALL_VOLUME_BYTES {
            SMALL_BOUNDARY_BYTES
        } else {
            BOUNDARY_BYTES
        };
        // A whole number of sectors, whose size is a power of two.
        let volume_bytes = device_bytes & !sector.saturating_sub(1);
        let regions = sector
            .saturating_mul(u64::from(REGION_SECTORS))
            .saturating_mul(2);
        let fat_offset = up_to(regions, boundary);
        // An upper bound: the number of clusters if the table had no padding.
        let most = volume_bytes
            .saturating_sub(fat_offset)
            .saturating_sub(9)
            .checked_div(cluster.saturating_add(4))
            .unwrap_or(0);
        let entries = most.saturating_add(3);
        let fat_bytes = up_to(entries.saturating_mul(4), cluster);
        let heap_offset = up_to(fat_offset.saturating_add(fat_bytes), boundary);
        let heap_bytes = volume_bytes.saturating_sub(heap_offset);
        Self {
            sector_bytes,
            cluster_bytes,
            volume_bytes,
            fat_offset,
            fat_bytes,
            heap_offset,
            clusters: low32(heap_bytes.checked_div(cluster).unwrap_or(0)),
        }
    }

    pub(super) fn bitmap_bytes(&self) -> u64 {
        u64::from(self.clusters).div_ceil(8)
    }

    /// Returns the first clusters of the bitmap, the up-case table and the root, and the first
    /// cluster after them.
    pub(super) fn firsts(&self) -> [Cluster; 4] {
        let clusters_for = |len_bytes: u64| low32(len_bytes.div_ceil(self.cluster_bytes.into()));
        let bitmap = Cluster(2);
        let upcase = bitmap.plus(clusters_for(self.bitmap_bytes()));
        let root = upcase.plus(clusters_for(len_u64(RECOMMENDED.len())));
        [bitmap, upcase, root, root.plus(1)]
    }

    /// Returns the number of clusters that an empty filesystem uses.
    pub(super) fn used_clusters(&self) -> u32 {
        let [first, .., end] = self.firsts();
        end.0.saturating_sub(first.0)
    }

    pub(super) fn offset_of(&self, cluster: Cluster) -> u64 {
        let nth = u64::from(cluster.0.saturating_sub(2));
        let within = nth.saturating_mul(self.cluster_bytes.into());
        self.heap_offset.saturating_add(within)
    }
}

/// Returns the usual cluster size of Windows and `mkfs.exfat`.
const fn usual_cluster(device_bytes: u64) -> u32 {
    if device_bytes <= 256 * MIB {
        4 << 10
    } else if device_bytes <= 32 * GIB {
        32 << 10
    } else {
        128 << 10
    }
}

fn is_shift(bytes: u32, shifts: &std::ops::RangeInclusive<u8>) -> bool {
    bytes.is_power_of_two()
        && u8::try_from(bytes.trailing_zeros()).is_ok_and(|shift| shifts.contains(&shift))
}

fn up_to(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}
