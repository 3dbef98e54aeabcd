//! The layout of the filesystem with its new size.

use diskfs_clusters::resize::Renumbering;
use diskfs_clusters::{Geometry, Root};

use crate::boot_sector::{BootSector, FAT12_CLUSTERS, FAT16_CLUSTERS, FAT32_LAST_CLUSTER, FatKind};
use crate::bytes::low32;
use crate::error::{Corrupt, Error, ErrorKind, Result};

/// The distance from the limits of a type that a filesystem must keep: many drivers have a limit
/// that is slightly wrong (fatgen103, "FAT Type Determination").
const DISTANCE: u32 = 16;

/// The layout of the new filesystem: offsets and lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewLayout {
    /// The number of clusters that make room for the tables.
    pub(super) shift: u32,
    pub(super) clusters: u32,
    /// The length of each table.
    pub(super) fat_bytes: u64,
    /// The offset of the first cluster.
    pub(super) first_offset: u64,
    pub(super) size_bytes: u64,
}

impl NewLayout {
    /// Returns the layout for this size of the volume; `None` if nothing would change.
    ///
    /// # Errors
    /// `Invalid` for a size that is too small for the type.
    pub(super) fn choose(boot: &BootSector, target_bytes: u64) -> Result<Option<Self>> {
        let sector = u64::from(boot.geometry.sector_bytes);
        // The number of sectors has 32 bits.
        let most = sector.saturating_mul(u32::MAX.into());
        let target_bytes = target_bytes.min(most);
        let target_bytes =
            target_bytes.saturating_sub(target_bytes.checked_rem(sector).unwrap_or(0));
        let same_tables = Self::with_tables(boot, target_bytes, boot.fat_bytes);
        let needed = table_bytes(boot.kind, same_tables.room(boot, target_bytes));
        let longer = boot.fat_bytes.saturating_add(
            needed
                .saturating_sub(boot.fat_bytes)
                .next_multiple_of(table_unit(boot)),
        );
        let longer_tables = Self::with_tables(boot, target_bytes, longer);
        let layout = if longer_tables.clusters > same_tables.clusters {
            longer_tables
        } else {
            same_tables
        };
        let old = boot.geometry.clusters;
        if target_bytes >= boot.size_bytes {
            return Ok((layout.clusters > old).then_some(layout));
        }
        let least = least_clusters(boot);
        if layout.clusters < least {
            let reason = format!(
                "cannot shrink the filesystem to {target_bytes} bytes: {} needs at least {least} \
                 clusters",
                boot.kind.name()
            );
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        Ok(Some(layout))
    }

    /// Returns the layout with the present tables and as many clusters.
    pub(super) fn with_clusters(boot: &BootSector, clusters: u32) -> Self {
        let geometry = &boot.geometry;
        Self {
            shift: 0,
            clusters,
            fat_bytes: boot.fat_bytes,
            first_offset: geometry.first_offset,
            size_bytes: geometry
                .first_offset
                .saturating_add(geometry.bytes_of(clusters)),
        }
    }

    fn with_tables(boot: &BootSector, target_bytes: u64, fat_bytes: u64) -> Self {
        let geometry = &boot.geometry;
        let more = fat_bytes.saturating_sub(boot.fat_bytes);
        let more = more.saturating_mul(boot.fats.into());
        let first_offset = geometry.first_offset.saturating_add(more);
        let shift = more.checked_div(geometry.cluster_bytes.into()).unwrap_or(0);
        let mut layout = Self {
            shift: low32(shift),
            clusters: 0,
            fat_bytes,
            first_offset,
            size_bytes: target_bytes,
        };
        let room = layout.room(boot, target_bytes);
        layout.clusters = room
            .min(table_entries(boot.kind, fat_bytes).saturating_sub(2))
            .min(most_clusters(boot));
        if layout.clusters < room {
            // Other implementations compute the number of clusters from the size.
            let clusters = geometry.bytes_of(layout.clusters);
            layout.size_bytes = first_offset.saturating_add(clusters);
        }
        layout
    }

    /// Returns the number of clusters between the tables and the end.
    fn room(&self, boot: &BootSector, target_bytes: u64) -> u32 {
        let bytes = target_bytes.saturating_sub(self.first_offset);
        let room = bytes.checked_div(boot.geometry.cluster_bytes.into());
        low32(room.unwrap_or(0))
    }

    /// Returns the geometry of the new filesystem.
    ///
    /// # Errors
    /// `Corrupt` if the root directory has no cluster.
    pub(super) fn geometry(&self, boot: &BootSector, numbers: &Renumbering) -> Result<Geometry> {
        let more = self.first_offset.saturating_sub(boot.geometry.first_offset);
        let root = match boot.geometry.root {
            Root::Fixed { offset, entries } => Root::Fixed {
                offset: offset.saturating_add(more),
                entries,
            },
            Root::Chain { first } => Root::Chain {
                first: numbers.new_number(first).ok_or(Corrupt::EmptyDirectory)?,
            },
        };
        Ok(Geometry {
            clusters: self.clusters,
            first_offset: self.first_offset,
            root,
            ..boot.geometry
        })
    }
}

/// Returns the smallest number of clusters that the filesystem can have. A FAT32 that has fewer
/// than its type should have is FAT32 for every driver that reads it, so it can become smaller.
pub(super) fn least_clusters(boot: &BootSector) -> u32 {
    let clusters = boot.geometry.clusters;
    let least = match boot.kind {
        FatKind::Fat12 => 1,
        FatKind::Fat16 => FAT12_CLUSTERS.saturating_add(DISTANCE),
        FatKind::Fat32 if clusters < FAT16_CLUSTERS => 1,
        FatKind::Fat32 => FAT16_CLUSTERS.saturating_add(DISTANCE),
    };
    least.min(clusters)
}

fn most_clusters(boot: &BootSector) -> u32 {
    let most = match boot.kind {
        FatKind::Fat12 => FAT12_CLUSTERS.saturating_sub(1).saturating_sub(DISTANCE),
        FatKind::Fat16 => FAT16_CLUSTERS.saturating_sub(1).saturating_sub(DISTANCE),
        FatKind::Fat32 => FAT32_LAST_CLUSTER.saturating_sub(1),
    };
    most.max(boot.geometry.clusters)
}

/// Returns the unit in which the tables grow: all of them together grow by whole clusters, so that
/// the clusters keep their alignment.
fn table_unit(boot: &BootSector) -> u64 {
    let Geometry {
        sector_bytes,
        cluster_bytes,
        ..
    } = boot.geometry;
    let fats = 1_u32.wrapping_shl(u32::from(boot.fats).trailing_zeros());
    let unit = cluster_bytes.checked_div(fats).unwrap_or(0);
    unit.max(sector_bytes).max(1).into()
}

/// Returns the length in bytes of a table for as many clusters.
fn table_bytes(kind: FatKind, clusters: u32) -> u64 {
    let entries = u64::from(clusters).saturating_add(2);
    match kind {
        FatKind::Fat12 => entries.saturating_mul(3).div_ceil(2),
        FatKind::Fat16 => entries.saturating_mul(2),
        FatKind::Fat32 => entries.saturating_mul(4),
    }
}

/// Returns the number of entries of a table.
fn table_entries(kind: FatKind, fat_bytes: u64) -> u32 {
    low32(match kind {
        FatKind::Fat12 => fat_bytes.saturating_mul(2) / 3,
        FatKind::Fat16 => fat_bytes / 2,
        FatKind::Fat32 => fat_bytes / 4,
    })
}
