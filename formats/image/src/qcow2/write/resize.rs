//! Resizing of the disk.
//!
//! The header's size is written last when the disk grows, and after the data past the new end was
//! freed when it shrinks. So a crash leaves the old size or the new one. An L1 table that is too
//! short is copied to new clusters; one write of one sector of the header activates the copy.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use diskfs_block::{Error, Result};

use crate::numbers::{round_up, shift_right};
use crate::qcow2::bitmap_directory;
use crate::qcow2::header::L1_SIZE_MAX_BYTES;
use crate::qcow2::mapping::RunKind;
use crate::qcow2::units::GuestOffset;
use crate::qcow2::write::Writer;

/// The preallocation of a grown disk's new range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// No clusters are allocated.
    Nothing,
    /// Clusters are allocated, and written only where the file would not read as zeroes.
    Clusters,
    /// Clusters are allocated and zeroes are written to them.
    Zeroes,
}

impl Writer {
    /// Changes the size of the disk, and ends writing.
    pub(crate) fn resize(&mut self, size_bytes: u64, fill: Fill) -> Result<()> {
        self.refuse_snapshots_without_size()?;
        self.refuse_bitmaps_of_other_size(size_bytes)?;
        self.refuse_long_l1(size_bytes)?;
        match size_bytes.cmp(&self.size_bytes) {
            Ordering::Equal => {}
            Ordering::Less => {
                self.begin()?;
                self.shrink(size_bytes)?;
            }
            Ordering::Greater => {
                self.begin()?;
                self.grow(size_bytes, fill)?;
            }
        }
        self.close()
    }

    /// Fails for snapshots of version 2, whose own size may not be stored.
    fn refuse_snapshots_without_size(&self) -> Result<()> {
        if self.header.version >= 3 || self.header.snapshot_count == 0 {
            return Ok(());
        }
        let reason = "cannot resize a version 2 image with snapshots: their size is not stored";
        Err(Error::unsupported(reason)
            .with_hint("delete the snapshots, or use `diskfs amend -o compat=1.1` first"))
    }

    /// Fails if a bitmap would need a table of another length, or bits past the new end removed.
    fn refuse_bitmaps_of_other_size(&self, size_bytes: u64) -> Result<()> {
        if !self.header.autoclear.bitmaps() {
            return Ok(());
        }
        // A broken directory becomes void with the first write.
        let entries = bitmap_directory::read(self.image.as_ref(), &self.header);
        for entry in entries.unwrap_or_default() {
            let bits = size_bytes.div_ceil(entry.bitmap.granularity_bytes.max(1));
            let clusters = bits.div_ceil(8).div_ceil(self.geometry().cluster_size());
            if size_bytes < self.size_bytes || clusters != u64::from(entry.table_entries) {
                let name = entry.bitmap.name.escape_debug();
                let reason = format!("cannot resize bitmap `{name}` to the new size of the disk");
                return Err(Error::unsupported(reason)
                    .with_hint("remove it with `diskfs bitmap remove`, or use `qemu-img resize`"));
            }
        }
        Ok(())
    }

    /// Fails if the disk would need an L1 table that is too long.
    fn refuse_long_l1(&self, size_bytes: u64) -> Result<()> {
        let geometry = self.geometry();
        if geometry.l1_entries_for(size_bytes) <= L1_SIZE_MAX_BYTES / 8 {
            return Ok(());
        }
        let max_bytes = geometry.l1_coverage().saturating_mul(L1_SIZE_MAX_BYTES / 8);
        let reason = format!(
            "size of {size_bytes} bytes is too large for clusters of {} bytes: at most {max_bytes}",
            geometry.cluster_size()
        );
        Err(Error::invalid(reason).with_hint("convert the image with a larger cluster size"))
    }

    fn grow(&mut self, size_bytes: u64, fill: Fill) -> Result<()> {
        let old_bytes = self.size_bytes;
        self.lengthen_l1(size_bytes)?;
        self.size_bytes = size_bytes;
        let filled = self.fill_range(old_bytes..size_bytes, fill);
        if let Err(e) = filled.and_then(|()| self.flush()) {
            self.size_bytes = old_bytes;
            if let Err(e) = self.give_back(old_bytes) {
                tracing::warn!("clusters past the end of the disk stay allocated: {e}");
            }
            return Err(e);
        }
        self.write_size(size_bytes)?;
        self.image.flush()
    }

    /// Frees what a failed growth has allocated.
    fn give_back(&self, old_bytes: u64) -> Result<()> {
        self.drop_past(old_bytes)?;
        self.free_l2_tables_past(old_bytes)?;
        // The first flush frees clusters, the second stores that.
        self.flush()?;
        self.flush()?;
        self.truncate_file()
    }

    /// Makes a new range of the disk read as zeroes, whatever the tables and the backing file have
    /// there.
    fn fill_range(&self, range: Range<u64>, fill: Fill) -> Result<()> {
        if let Some(data) = &self.external {
            let there = range.start..data.size_bytes().min(range.end);
            if self.is_external_raw() && !there.is_empty() {
                data.write_zeroes(there.start, there.end.saturating_sub(there.start))?;
            }
            if data.size_bytes() != range.end {
                data.set_size(range.end)?;
            }
        }
        if fill == Fill::Zeroes {
            return self.write_zeroes_as_data(range);
        }
        self.zero_range(range.clone())?;
        // Other programs may write to a raw data file, so all of it is mapped, as in QEMU.
        if fill == Fill::Clusters || self.is_external_raw() {
            self.allocate_range(range)?;
        }
        Ok(())
    }

    /// Allocates the clusters of a range that reads as zeroes.
    fn allocate_range(&self, range: Range<u64>) -> Result<()> {
        if self.reader.is_encrypted {
            // Unwritten clusters would decrypt to noise.
            return self.write_zeroes_as_data(range);
        }
        let mut at = self.geometry().cluster_start(GuestOffset(range.start));
        while at.0 < range.end {
            self.with_room(|| self.lock().allocate_cluster(at))?;
            self.flush_when_full()?;
            at = at.plus(self.geometry().cluster_size());
        }
        Ok(())
    }

    /// Copies the L1 table to where it can be longer, if the disk needs that.
    fn lengthen_l1(&mut self, size_bytes: u64) -> Result<()> {
        let old = self.header.l1;
        let entries = self.geometry().l1_entries_for(size_bytes);
        if entries <= old.entries {
            return Ok(());
        }
        // From now on the file has all of the old table.
        self.flush()?;
        let new = self.lock().copy_l1(old, entries)?;
        // The counts of the new clusters are durable before the header refers to them.
        self.flush()?;
        self.point_to_l1_table(new)?;
        self.image.flush()?;
        let reader = Arc::get_mut(&mut self.reader)
            .ok_or_else(|| Error::invalid("cannot resize an image that is in use"))?;
        reader.mapping.move_l1(new);
        self.header.l1 = new;
        self.lock().free_table(old);
        Ok(())
    }

    fn shrink(&mut self, size_bytes: u64) -> Result<()> {
        let cluster_end = round_up(size_bytes, self.geometry().cluster_bits());
        self.clear_stored(size_bytes..cluster_end.min(self.size_bytes))?;
        self.drop_past(size_bytes)?;
        self.flush()?;
        self.write_size(size_bytes)?;
        self.image.flush()?;
        self.size_bytes = size_bytes;
        self.free_l2_tables_past(size_bytes)?;
        // The first flush frees clusters, the second stores that.
        self.flush()?;
        self.flush()?;
        if let Some(data) = &self.external {
            data.set_size(size_bytes)?;
        }
        self.truncate_file()
    }

    /// Zeroes what this image itself stores in the rest of the last cluster. QEMU shows it again when
    /// it grows the disk.
    fn clear_stored(&self, range: Range<u64>) -> Result<()> {
        let mut at = GuestOffset(range.start);
        while at.0 < range.end {
            let left = range.end.saturating_sub(at.0);
            let run = self.reader.mapping.run_at(at, left)?;
            let end = at.plus(run.len_bytes);
            if matches!(run.kind, RunKind::Data(_) | RunKind::Compressed(_)) {
                self.zero_range(at.0..end.0)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Frees all clusters that begin past the end of a disk of `size_bytes`.
    fn drop_past(&self, size_bytes: u64) -> Result<()> {
        let start = round_up(size_bytes, self.geometry().cluster_bits());
        let coverage = self.geometry().l1_coverage();
        let end = coverage.saturating_mul(self.header.l1.entries);
        self.drop_clusters(start..end)
    }

    /// Frees the L2 tables that only map what is past the end of the disk. Their entries are
    /// already empty.
    fn free_l2_tables_past(&self, size_bytes: u64) -> Result<()> {
        let geometry = self.geometry();
        let first = geometry.l1_entries_for(size_bytes);
        for index in first..self.header.l1.entries {
            let at = index.saturating_mul(geometry.l1_coverage());
            self.lock().free_l2_table(GuestOffset(at))?;
            self.flush_when_full()?;
        }
        Ok(())
    }

    /// Truncates the file after the last cluster in use.
    pub(super) fn truncate_file(&self) -> Result<()> {
        let mut locked = self.lock();
        while let Some(last) = locked.state.untouched_from.checked_sub(1)
            && locked.count(last)? == 0
        {
            locked.state.untouched_from = last;
        }
        let end = locked.place_of(locked.state.untouched_from);
        if end.0 < self.image.size_bytes()
            && let Err(e) = self.image.set_size(end.0)
        {
            // A device has a fixed size; the free clusters at its end are harmless.
            tracing::debug!("the file keeps free clusters at its end: {e}");
            locked.state.untouched_from = shift_right(
                round_up(self.image.size_bytes(), self.geometry().cluster_bits()),
                self.geometry().cluster_bits(),
            );
        }
        Ok(())
    }
}
