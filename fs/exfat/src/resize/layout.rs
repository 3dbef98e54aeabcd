//! The layout of the filesystem with its new size.

use diskfs_clusters::resize::Renumbering;
use diskfs_clusters::{Geometry, Root};

use crate::boot_sector::{BootSector, MAX_CLUSTERS};
use crate::bytes::low32;
use crate::error::{Corrupt, Error, ErrorKind, Result};

/// The size of the smallest volume in bytes (exFAT specification, 3.1.5).
const MIN_VOLUME_BYTES: u64 = 1 << 20;
/// The largest alignment of the clusters that is kept.
const ALIGNMENT_MAX: u64 = 1 << 20;
const ENTRY_BYTES: u64 = 4;

/// The layout of the new filesystem: offsets and lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewLayout {
    /// The number of clusters that make room for the table.
    pub(super) shift: u32,
    pub(super) clusters: u32,
    pub(super) fat_bytes: u64,
    pub(super) heap_offset: u64,
    pub(super) size_bytes: u64,
}

impl NewLayout {
    /// Returns the layout for this size of the volume; `None` if nothing would change.
    ///
    /// # Errors
    /// `Invalid` for a size that is too small.
    pub(super) fn choose(boot: &BootSector, target_bytes: u64) -> Result<Option<Self>> {
        let sector = u64::from(boot.geometry.sector_bytes).max(1);
        let rest = target_bytes.checked_rem(sector).unwrap_or(0);
        let target_bytes = target_bytes.saturating_sub(rest);
        let same_place = Self::with_heap(boot, target_bytes, 0);
        let room = same_place.room(boot, target_bytes).min(MAX_CLUSTERS);
        let table_end = boot.fat_offset.saturating_add(table_bytes(room));
        let more = table_end.saturating_sub(same_place.heap_offset);
        let later = Self::with_heap(boot, target_bytes, more);
        let layout = if later.clusters > same_place.clusters {
            later
        } else {
            same_place
        };
        let old = boot.geometry.clusters;
        if target_bytes >= boot.size_bytes {
            return Ok((layout.clusters > old).then_some(layout));
        }
        if layout.clusters < least_clusters(boot) {
            let reason = format!(
                "cannot shrink the filesystem to {target_bytes} bytes: exFAT needs at least \
                 {MIN_VOLUME_BYTES}"
            );
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        Ok(Some(layout))
    }

    /// Returns the layout with the clusters in their place, and as many of them.
    pub(super) fn with_clusters(boot: &BootSector, clusters: u32) -> Self {
        let geometry = &boot.geometry;
        Self {
            shift: 0,
            clusters,
            fat_bytes: boot.fat_bytes,
            heap_offset: geometry.first_offset,
            size_bytes: geometry
                .first_offset
                .saturating_add(geometry.bytes_of(clusters)),
        }
    }

    /// Returns the layout whose clusters start at least `more` bytes later.
    fn with_heap(boot: &BootSector, target_bytes: u64, more: u64) -> Self {
        let geometry = &boot.geometry;
        let cluster = u64::from(geometry.cluster_bytes).max(1);
        let more = more.next_multiple_of(alignment(boot).max(cluster));
        let heap_offset = geometry.first_offset.saturating_add(more);
        let mut layout = Self {
            shift: low32(more.checked_div(cluster).unwrap_or(0)),
            clusters: 0,
            fat_bytes: 0,
            heap_offset,
            size_bytes: target_bytes,
        };
        let table_room = heap_offset.saturating_sub(boot.fat_offset);
        let entries = table_room.checked_div(ENTRY_BYTES).unwrap_or(0);
        let room = layout.room(boot, target_bytes);
        let most = low32(entries.saturating_sub(2)).min(MAX_CLUSTERS);
        layout.clusters = room.min(most);
        if layout.clusters < room {
            // The number of clusters must follow from the size (3.1.9).
            let clusters = geometry.bytes_of(layout.clusters);
            layout.size_bytes = heap_offset.saturating_add(clusters);
        }
        let sector = u64::from(geometry.sector_bytes).max(1);
        let needed = table_bytes(layout.clusters).next_multiple_of(sector);
        layout.fat_bytes = boot.fat_bytes.max(needed);
        layout
    }

    /// Returns the number of clusters between the table and the end.
    fn room(&self, boot: &BootSector, target_bytes: u64) -> u32 {
        let bytes = target_bytes.saturating_sub(self.heap_offset);
        let room = bytes.checked_div(boot.geometry.cluster_bytes.into());
        low32(room.unwrap_or(0))
    }

    /// Returns the geometry of the new filesystem.
    ///
    /// # Errors
    /// `Corrupt` if the root directory has no cluster.
    pub(super) fn geometry(&self, boot: &BootSector, numbers: &Renumbering) -> Result<Geometry> {
        let Root::Chain { first } = boot.geometry.root else {
            return Err(Corrupt::NoSuchRootEntry("cluster").into());
        };
        let first = numbers.new_number(first);
        Ok(Geometry {
            clusters: self.clusters,
            first_offset: self.heap_offset,
            root: Root::Chain {
                first: first.ok_or(Corrupt::NoSuchRootEntry("cluster"))?,
            },
            ..boot.geometry
        })
    }
}

/// Returns the alignment of the present clusters on the volume.
fn alignment(boot: &BootSector) -> u64 {
    let zeroes = boot.geometry.first_offset.trailing_zeros();
    1_u64.checked_shl(zeroes).unwrap_or(1).min(ALIGNMENT_MAX)
}

/// Returns the length in bytes of a table for as many clusters.
fn table_bytes(clusters: u32) -> u64 {
    let entries = u64::from(clusters).saturating_add(2);
    entries.saturating_mul(ENTRY_BYTES)
}

/// Returns the number of clusters of the smallest volume.
pub(super) fn least_clusters(boot: &BootSector) -> u32 {
    let bytes = MIN_VOLUME_BYTES.saturating_sub(boot.geometry.first_offset);
    let least = boot.geometry.clusters_for(bytes).max(1);
    least.min(boot.geometry.clusters)
}
