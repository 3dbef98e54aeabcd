//! The layout of a new qcow2 image: header, refcount table, refcount blocks, L1 table, LUKS header,
//! L2 tables and data, each in whole clusters and in this order.

use diskfs_block::{Error, Result};

use crate::numbers::power_of_two;
use crate::qcow2::header::{L1_SIZE_MAX_BYTES, REFCOUNT_TABLE_MAX_BYTES};
use crate::qcow2::units::Geometry;

/// A run of consecutive clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clusters {
    pub(super) start: u64,
    pub(super) count: u64,
}

impl Clusters {
    const fn end(self) -> u64 {
        self.start.saturating_add(self.count)
    }

    /// Returns a run of `count` clusters directly after this one.
    const fn then(self, count: u64) -> Self {
        Self {
            start: self.end(),
            count,
        }
    }

    /// Returns the offset of the first cluster in the file.
    pub(super) const fn offset(self, geometry: Geometry) -> u64 {
        self.start.saturating_mul(geometry.cluster_size())
    }

    /// Returns the length of the run in bytes.
    pub(super) const fn len_bytes(self, geometry: Geometry) -> u64 {
        self.count.saturating_mul(geometry.cluster_size())
    }
}

/// The structures of a new image that are allocated at creation, besides header and refcounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocated {
    /// Only the L1 table.
    Nothing,
    /// The L1 table and all L2 tables; the data is in another file.
    Tables,
    /// The L1 table, all L2 tables, and a cluster for each cluster of the guest.
    Everything,
}

/// The locations of all structures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) geometry: Geometry,
    pub(super) refcount_order: u32,
    pub(super) l1_entries: u64,
    pub(super) refcount_table: Clusters,
    pub(super) refcount_blocks: Clusters,
    pub(super) l1: Clusters,
    /// The LUKS header, if the image is encrypted.
    pub(super) luks: Clusters,
    pub(super) l2: Clusters,
    pub(super) data: Clusters,
}

impl Layout {
    pub(super) fn new(
        geometry: Geometry,
        refcount_order: u32,
        size_bytes: u64,
        allocated: Allocated,
        luks_bytes: u64,
    ) -> Result<Self> {
        let l1_entries = geometry.l1_entries_for(size_bytes);
        if l1_entries.saturating_mul(8) > L1_SIZE_MAX_BYTES {
            let reason = format!(
                "the disk is too large: {size_bytes} bytes do not fit clusters of {} bytes",
                geometry.cluster_size()
            );
            return Err(Error::invalid(reason).with_hint("use a larger cluster size, at most 2M"));
        }
        let clusters_for = |len: u64| len.div_ceil(geometry.cluster_size());
        let l1_count = clusters_for(l1_entries.saturating_mul(8));
        let luks_count = clusters_for(luks_bytes);
        let l2_count = match allocated {
            Allocated::Nothing => 0,
            Allocated::Tables | Allocated::Everything => l1_entries,
        };
        let data_count = match allocated {
            Allocated::Everything => clusters_for(size_bytes),
            Allocated::Nothing | Allocated::Tables => 0,
        };
        let header = Clusters { start: 0, count: 1 };
        let others = header
            .then(l1_count)
            .then(luks_count)
            .then(l2_count)
            .then(data_count)
            .end();
        let counts = RefcountClusters::for_clusters(others, geometry, refcount_order)?;
        let refcount_table = header.then(counts.table);
        let refcount_blocks = refcount_table.then(counts.blocks);
        let l1 = refcount_blocks.then(l1_count);
        let luks = l1.then(luks_count);
        let l2 = luks.then(l2_count);
        Ok(Self {
            geometry,
            refcount_order,
            l1_entries,
            refcount_table,
            refcount_blocks,
            l1,
            luks,
            l2,
            data: l2.then(data_count),
        })
    }

    /// Returns the number of clusters of the file.
    pub(super) const fn clusters(&self) -> u64 {
        self.data.end()
    }

    /// Returns the length of the file in bytes.
    pub(super) const fn len_bytes(&self) -> u64 {
        self.clusters().saturating_mul(self.geometry.cluster_size())
    }
}

/// The numbers of clusters of an image's refcounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefcountClusters {
    pub(crate) table: u64,
    pub(crate) blocks: u64,
}

impl RefcountClusters {
    /// Returns the refcounts for an image with `others` clusters besides them. They count
    /// themselves, too.
    ///
    /// # Errors
    /// `Invalid` if the table would be larger than the format allows.
    pub(crate) fn for_clusters(others: u64, geometry: Geometry, order: u32) -> Result<Self> {
        let cluster_size = geometry.cluster_size();
        let per_block = counts_per_block(geometry, order);
        let mut found = Self {
            table: 1,
            blocks: 1,
        };
        loop {
            let clusters = others
                .saturating_add(found.blocks)
                .saturating_add(found.table);
            let blocks = clusters.div_ceil(per_block);
            let table = blocks.saturating_mul(8).div_ceil(cluster_size);
            if blocks <= found.blocks && table <= found.table {
                break;
            }
            found = Self { table, blocks };
        }
        if found.table.saturating_mul(cluster_size) > REFCOUNT_TABLE_MAX_BYTES {
            let reason = "too many clusters for this cluster size and refcount width";
            return Err(Error::invalid(reason).with_hint("use a larger cluster size, at most 2M"));
        }
        Ok(found)
    }
}

/// Returns the number of counts of `2^order` bits in a refcount block; never zero.
pub(crate) const fn counts_per_block(geometry: Geometry, order: u32) -> u64 {
    let bits = geometry.cluster_bits().saturating_add(3);
    power_of_two(bits.saturating_sub(order))
}
