//! The clusters of bitmaps that a change writes and frees.

use diskfs_block::{Error, Result};

use crate::numbers::{low_bits, round_up, shift_right, to_u64, to_usize};
use crate::qcow2::bitmap_table::{self, BitmapCluster};
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::bitmap_edit::Edit;
use crate::qcow2::write::freed::{Freed, Hole};
use crate::qcow2::write::marks::Marks;

impl Edit<'_> {
    /// Adds marks to a bitmap's clusters. A cluster that changes is a new one. Returns false if
    /// none changes.
    pub(super) fn add_marks(
        &mut self,
        clusters: &mut [BitmapCluster],
        marks: &Marks,
    ) -> Result<bool> {
        let bits = self.writer.geometry().cluster_bits();
        let mut parts = marks.parts(self.writer.geometry()).peekable();
        let mut is_changed = false;
        while let Some((at, _)) = parts.peek() {
            let index = shift_right(*at, bits);
            let Some(cluster) = clusters.get_mut(to_usize(index)) else {
                return Err(Error::corrupt("bitmap table is too short for the disk"));
            };
            let old = self.bits_of(*cluster)?;
            let mut new = old.clone();
            while let Some((at, part)) = parts.next_if(|(at, _)| shift_right(*at, bits) == index) {
                let start = to_usize(low_bits(at, bits));
                let place = new.get_mut(start..).unwrap_or_default();
                for (byte, more) in place.iter_mut().zip(part) {
                    *byte |= more;
                }
            }
            if new != old {
                let place = self.write_new(&new)?;
                if let BitmapCluster::Stored(old) = *cluster {
                    self.free(old, to_u64(new.len()));
                }
                *cluster = BitmapCluster::Stored(place);
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    fn bits_of(&self, cluster: BitmapCluster) -> Result<Vec<u8>> {
        let len = to_usize(self.writer.geometry().cluster_size());
        match cluster {
            BitmapCluster::Zeroes => Ok(vec![0; len]),
            BitmapCluster::Ones => Ok(vec![0xff; len]),
            BitmapCluster::Stored(at) => {
                let mut bytes = vec![0; len];
                self.writer.image.read_at(at.0, &mut bytes)?;
                Ok(bytes)
            }
        }
    }

    pub(super) fn write_table(&mut self, clusters: &[BitmapCluster]) -> Result<HostOffset> {
        self.write_new(&bitmap_table::encode(clusters))
    }

    /// Writes bytes to new consecutive clusters.
    pub(super) fn write_new(&mut self, bytes: &[u8]) -> Result<HostOffset> {
        let bits = self.writer.geometry().cluster_bits();
        let len_bytes = round_up(to_u64(bytes.len()), bits);
        let mut locked = self.writer.lock();
        let run = locked.allocate_contiguous(shift_right(len_bytes, bits))?;
        let at = locked.place_of(run.first);
        drop(locked);
        self.made.push(run);
        let mut padded = bytes.to_vec();
        padded.resize(to_usize(len_bytes), 0);
        self.writer.image.write_at(at.0, &padded)?;
        Ok(at)
    }

    /// Frees a bitmap's clusters and its table, when the change is active.
    pub(super) fn free_bits(&mut self, index: usize) -> Result<()> {
        let Some(bitmap) = self.bitmaps.get(index) else {
            return Ok(());
        };
        let cluster_size = self.writer.geometry().cluster_size();
        for cluster in self.tables_of(&bitmap.entry)? {
            if let BitmapCluster::Stored(at) = cluster {
                self.free(at, cluster_size);
            }
        }
        self.free_table(index);
        Ok(())
    }

    pub(super) fn free_table(&mut self, index: usize) {
        if let Some(bitmap) = self.bitmaps.get(index) {
            let len_bytes = u64::from(bitmap.entry.table_entries).saturating_mul(8);
            self.free(bitmap.entry.table_at, len_bytes);
        }
    }

    pub(super) fn free(&mut self, at: HostOffset, len_bytes: u64) {
        let bits = self.writer.geometry().cluster_bits();
        self.freed.push(Freed {
            first: shift_right(at.0, bits),
            clusters: shift_right(round_up(len_bytes, bits), bits),
            hole: Hole::Keep,
        });
    }

    /// Frees the new clusters of a change that failed.
    pub(super) fn give_back(&mut self) {
        let mut locked = self.writer.lock();
        let released = self.made.drain(..).try_for_each(|run| locked.release(run));
        drop(locked);
        if let Err(e) = released.and_then(|()| self.give_back_space()) {
            tracing::warn!("clusters of a change that failed stay allocated: {e}");
        }
    }

    fn give_back_space(&self) -> Result<()> {
        self.writer.flush()?;
        self.writer.truncate_file()?;
        self.writer.close()
    }
}
