//! The allocation bitmap (exFAT specification, 7.1): one bit per cluster, which is set if the
//! cluster is in use.

use std::collections::BTreeSet;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Allocation, Chain, count_used};

use crate::boot_sector::BootSector;
use crate::bytes::{index, len_u64, low32};
use crate::error::{Corrupt, ErrorKind, Result, device_failed};

/// The number of bytes to read at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// The location of the allocation bitmap, and its changes that have not been written.
#[derive(Debug)]
pub(crate) struct AllocationBitmap {
    /// The offset and length of each run in bytes. Together they have a bit for each cluster.
    runs: Vec<(u64, u64)>,
    clusters: u32,
    sector_bytes: u64,
    /// The sectors that differ from the device.
    dirty: BTreeSet<u64>,
}

impl AllocationBitmap {
    /// Returns a bitmap that is stored in the first `len_bytes` of these clusters.
    pub(crate) fn new(boot: &BootSector, chain: &Chain, len_bytes: u64) -> Result<Self> {
        let geometry = &boot.geometry;
        let needed = u64::from(geometry.clusters.div_ceil(8));
        let has = geometry.bytes_of(chain.clusters());
        if len_bytes < needed || has < needed {
            return Err(Corrupt::Length {
                what: "allocation bitmap",
                found: len_bytes.min(has),
                range: "a bit for each cluster",
            }
            .into());
        }
        Ok(Self {
            runs: geometry.runs(chain, needed),
            clusters: geometry.clusters,
            sector_bytes: geometry.sector_bytes.into(),
            dirty: BTreeSet::new(),
        })
    }

    /// Counts the free clusters.
    pub(crate) fn count_free(&self, device: &dyn BlockRead) -> Result<u32> {
        let mut used: u32 = 0;
        let mut left = self.clusters;
        self.for_each_piece(device, |bytes| {
            used = used.saturating_add(count_used(bytes, left));
            left = left.saturating_sub(low32(bytes.len()).saturating_mul(8));
        })?;
        Ok(self.clusters.saturating_sub(used))
    }

    /// Reads the whole bitmap.
    pub(crate) fn read(&self, device: &dyn BlockRead) -> Result<Allocation> {
        let mut bytes = Vec::with_capacity(index(self.clusters.div_ceil(8)));
        self.for_each_piece(device, |piece| bytes.extend_from_slice(piece))?;
        Ok(Allocation::from_bits(bytes, self.clusters))
    }

    fn for_each_piece(&self, device: &dyn BlockRead, mut look: impl FnMut(&[u8])) -> Result<()> {
        let mut bytes = Vec::new();
        for (offset, len_bytes) in &self.runs {
            let mut done: u64 = 0;
            while done < *len_bytes {
                let piece = len_bytes.saturating_sub(done).min(PIECE_BYTES);
                bytes.resize(index(piece), 0);
                let at = offset.saturating_add(done);
                device.read_at(at, &mut bytes).map_err(device_failed)?;
                look(&bytes);
                done = done.saturating_add(piece);
            }
        }
        Ok(())
    }

    /// Records that the bits of these clusters have changed.
    pub(crate) fn note(&mut self, chain: &Chain) {
        for run in chain.runs() {
            let sector = |cluster: u32| {
                let nth = u64::from(cluster.saturating_sub(2));
                (nth / 8).checked_div(self.sector_bytes).unwrap_or(0)
            };
            self.dirty
                .extend(sector(run.first.0)..=sector(run.last().0));
        }
    }

    /// Returns the number of changed sectors.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.dirty.len()
    }

    /// Discards all changes that have not been written.
    pub(crate) fn forget_changes(&mut self) {
        self.dirty.clear();
    }

    /// Writes the changed sectors.
    pub(crate) fn write_dirty(
        &mut self,
        device: &dyn BlockWrite,
        allocation: &Allocation,
    ) -> Result<()> {
        for sector in std::mem::take(&mut self.dirty) {
            let at = sector.saturating_mul(self.sector_bytes);
            let end = at.saturating_add(self.sector_bytes);
            let end = end.min(len_u64(allocation.bits().len()));
            let bytes = allocation.bits().get(index(at)..index(end));
            let offset = self.offset_of(at).ok_or(ErrorKind::Invalid)?;
            let written = device.write_at(offset, bytes.unwrap_or_default());
            written.map_err(device_failed)?;
        }
        Ok(())
    }

    /// Returns the offset on the device of a byte of the bitmap. Every run but the last is a whole
    /// number of sectors.
    fn offset_of(&self, at: u64) -> Option<u64> {
        let mut before: u64 = 0;
        for (offset, len_bytes) in &self.runs {
            let within = at.saturating_sub(before);
            if within < *len_bytes {
                return Some(offset.saturating_add(within));
            }
            before = before.saturating_add(*len_bytes);
        }
        None
    }
}

/// Returns the share of clusters in use in percent, rounded down (3.1.18).
pub(crate) fn percent_in_use(allocation: &Allocation) -> u8 {
    let clusters = u64::from(allocation.clusters());
    let used = clusters.saturating_sub(allocation.free().into());
    let percent = used.saturating_mul(100).checked_div(clusters);
    u8::try_from(percent.unwrap_or(0)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use diskfs_clusters::Cluster;

    use super::*;

    #[test]
    fn only_sectors_that_changed_are_written() {
        let mut bitmap = AllocationBitmap {
            runs: vec![(1024, 512), (4096, 100)],
            clusters: 4800,
            sector_bytes: 512,
            dirty: BTreeSet::new(),
        };
        let device = diskfs_block::Memory::new(vec![0; 8192]);
        let mut allocation = bitmap.read(&device).unwrap();
        assert_eq!(bitmap.count_free(&device).unwrap(), allocation.free());
        let chain = allocation.allocate(3, Some(Cluster(2 + 4096))).unwrap();
        bitmap.note(&chain);
        assert_eq!(bitmap.dirty_sectors(), 1);
        bitmap.write_dirty(&device, &allocation).unwrap();
        assert_eq!(device.to_vec()[4096], 0b1110);
        assert_eq!(bitmap.count_free(&device).unwrap(), 4797);
        assert_eq!(percent_in_use(&allocation), 0);
    }
}
