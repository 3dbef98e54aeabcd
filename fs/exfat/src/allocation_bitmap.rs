//! The allocation bitmap (exFAT specification, 7.1): a bit for each cluster that is in use.

use std::collections::BTreeSet;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster};

use crate::boot_sector::BootSector;
use crate::bytes::{index, len_u64};
use crate::error::{Corrupt, ErrorKind, Result, device_failed};

/// What is read of it at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// Where the bitmap is.
#[derive(Debug, Clone)]
pub(crate) struct BitmapPlace {
    /// Offset and length of each run, in bytes; together as long as there are clusters.
    runs: Vec<(u64, u64)>,
    clusters: u32,
    sector_bytes: u64,
}

impl BitmapPlace {
    /// Of a bitmap with these clusters, so many bytes of them its own.
    pub(crate) fn new(boot: &BootSector, chain: &Chain, len_bytes: u64) -> Result<Self> {
        let needed = u64::from(boot.clusters.div_ceil(8));
        if len_bytes < needed || boot.bytes_of(chain.clusters()) < needed {
            return Err(Corrupt::Length {
                what: "the allocation bitmap",
                found: len_bytes.min(boot.bytes_of(chain.clusters())),
                range: "a bit for each cluster",
            }
            .into());
        }
        let mut left = needed;
        let runs = chain.runs().iter().map(|run| {
            let len_bytes = boot.bytes_of(run.count).min(left);
            left = left.saturating_sub(len_bytes);
            (boot.offset_of(run.first), len_bytes)
        });
        Ok(Self {
            runs: runs.filter(|(_, len_bytes)| *len_bytes > 0).collect(),
            clusters: boot.clusters,
            sector_bytes: boot.sector_bytes.into(),
        })
    }

    /// How many clusters are free.
    pub(crate) fn count_free(&self, device: &dyn BlockRead) -> Result<u32> {
        let mut used: u32 = 0;
        let mut left = self.clusters;
        self.for_each_piece(device, |bytes| {
            for byte in bytes {
                used = used.saturating_add((byte & valid_bits(left)).count_ones());
                left = left.saturating_sub(8);
            }
        })?;
        Ok(self.clusters.saturating_sub(used))
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
}

/// The bits of a byte that belong to clusters, where so many are left.
fn valid_bits(left: u32) -> u8 {
    if left >= 8 {
        u8::MAX
    } else {
        !u8::MAX.wrapping_shl(left)
    }
}

/// The bitmap in memory, changed here and written by [`write_dirty`](Self::write_dirty).
#[derive(Debug)]
pub(crate) struct AllocationBitmap {
    place: BitmapPlace,
    bytes: Vec<u8>,
    /// Its sectors that differ from the device's.
    dirty: BTreeSet<u64>,
    free: u32,
    /// Where the next search begins.
    next: u32,
}

impl AllocationBitmap {
    /// As the device has it.
    pub(crate) fn read(place: &BitmapPlace, device: &dyn BlockRead) -> Result<Self> {
        let mut bytes = Vec::with_capacity(index(place.clusters.div_ceil(8)));
        place.for_each_piece(device, |piece| bytes.extend_from_slice(piece))?;
        let mut left = place.clusters;
        let mut used: u32 = 0;
        for byte in &bytes {
            used = used.saturating_add((byte & valid_bits(left)).count_ones());
            left = left.saturating_sub(8);
        }
        Ok(Self {
            bytes,
            dirty: BTreeSet::new(),
            free: place.clusters.saturating_sub(used),
            next: 0,
            place: place.clone(),
        })
    }

    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// How much of the clusters is in use, in percent, rounded down (3.1.18).
    pub(crate) fn percent_in_use(&self) -> u8 {
        let used = u64::from(self.place.clusters.saturating_sub(self.free));
        let percent = used.saturating_mul(100);
        let percent = percent.checked_div(self.place.clusters.into()).unwrap_or(0);
        u8::try_from(percent).unwrap_or(100)
    }

    fn is_used(&self, nth: u32) -> bool {
        let byte = self.bytes.get(index(nth / 8)).copied().unwrap_or(u8::MAX);
        byte & (1 << (nth % 8)) != 0
    }

    fn mark(&mut self, cluster: Cluster, used: bool) {
        let nth = cluster.0.saturating_sub(2);
        if nth >= self.place.clusters || self.is_used(nth) == used {
            return;
        }
        if let Some(byte) = self.bytes.get_mut(index(nth / 8)) {
            *byte ^= 1 << (nth % 8);
        }
        let sector = u64::from(nth / 8).checked_div(self.place.sector_bytes);
        self.dirty.extend(sector);
        self.free = if used {
            self.free.saturating_sub(1)
        } else {
            self.free.saturating_add(1)
        };
    }

    /// Takes `count` clusters, `after` that one if they are free there; `None` when there are fewer.
    pub(crate) fn take(&mut self, count: u32, after: Option<Cluster>) -> Option<Chain> {
        if count > self.free {
            return None;
        }
        let mut chain = Chain::default();
        let beside = after.map(|cluster| cluster.0.saturating_sub(1));
        let mut nth = beside.unwrap_or(self.next);
        while chain.clusters() < count {
            nth = self.next_free(nth)?;
            let cluster = Cluster(2).plus(nth);
            self.mark(cluster, true);
            chain.push(cluster, 1);
        }
        self.next = nth.saturating_add(1);
        Some(chain)
    }

    /// The first free one from `nth` on, or from the beginning.
    fn next_free(&self, nth: u32) -> Option<u32> {
        let from = |start: u32, end: u32| {
            let mut nth = start;
            while nth < end {
                let byte = self.bytes.get(index(nth / 8)).copied()?;
                if nth.is_multiple_of(8) && byte == u8::MAX {
                    nth = nth.saturating_add(8);
                } else if self.is_used(nth) {
                    nth = nth.saturating_add(1);
                } else {
                    return Some(nth);
                }
            }
            None
        };
        let clusters = self.place.clusters;
        from(nth, clusters).or_else(|| from(0, nth.min(clusters)))
    }

    /// Gives clusters back.
    pub(crate) fn give_back(&mut self, chain: &Chain) {
        for cluster in chain.runs().iter().flat_map(diskfs_clusters::Run::clusters) {
            self.mark(cluster, false);
        }
    }

    /// How many sectors differ from what the device has.
    pub(crate) fn dirty_sectors(&self) -> usize {
        self.dirty.len()
    }

    /// Writes what differs.
    pub(crate) fn write_dirty(&mut self, device: &dyn BlockWrite) -> Result<()> {
        for sector in std::mem::take(&mut self.dirty) {
            let at = sector.saturating_mul(self.place.sector_bytes);
            let end = at.saturating_add(self.place.sector_bytes);
            let end = end.min(len_u64(self.bytes.len()));
            let bytes = self.bytes.get(index(at)..index(end)).unwrap_or_default();
            let offset = self.offset_of(at).ok_or(ErrorKind::Invalid)?;
            device.write_at(offset, bytes).map_err(device_failed)?;
        }
        Ok(())
    }

    /// Where a byte of the bitmap is on the device. Runs are whole sectors long, but for the last.
    fn offset_of(&self, at: u64) -> Option<u64> {
        let mut before: u64 = 0;
        for (offset, len_bytes) in &self.place.runs {
            let within = at.saturating_sub(before);
            if within < *len_bytes {
                return Some(offset.saturating_add(within));
            }
            before = before.saturating_add(*len_bytes);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bitmap(bytes: &[u8], clusters: u32) -> AllocationBitmap {
        let device = diskfs_block::Memory::new(bytes.to_vec());
        let place = BitmapPlace {
            runs: vec![(0, u64::from(clusters.div_ceil(8)))],
            clusters,
            sector_bytes: 512,
        };
        assert_eq!(
            place.count_free(&device).unwrap(),
            AllocationBitmap::read(&place, &device).unwrap().free()
        );
        AllocationBitmap::read(&place, &device).unwrap()
    }

    #[test]
    fn bits_behind_the_last_cluster_do_not_count() {
        let mut bitmap = bitmap(&[0x0f, 0xf8], 11);
        assert_eq!((bitmap.free(), bitmap.bytes.len()), (7, 2));
        let chain = bitmap.take(7, Some(Cluster(9))).unwrap();
        assert_eq!(
            chain
                .runs()
                .iter()
                .map(|run| (run.first.0, run.count))
                .collect::<Vec<_>>(),
            [(10, 3), (6, 4)]
        );
        assert!(bitmap.take(1, None).is_none());
        bitmap.give_back(&chain);
        assert_eq!((bitmap.free(), bitmap.bytes[1]), (7, 0xf8));
    }
}
