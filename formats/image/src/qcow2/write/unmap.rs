//! Zeroing and discarding.
//!
//! From version 3 on, a flag in the L2 table makes a cluster read as zeroes without being stored.
//! Version 2 has no such flag: only an unallocated cluster without a backing file reads as zeroes.

use std::ops::Range;

use diskfs_block::Result;

use crate::numbers::{low_bits, round_up, shift_right, to_usize};
use crate::qcow2::l2_entry::{L2Entry, StandardCluster, ZeroClusters};
use crate::qcow2::mapping::RunKind;
use crate::qcow2::units::GuestOffset;
use crate::qcow2::write::Writer;
use crate::qcow2::write::freed::Hole;
use crate::qcow2::write::metadata::Locked;
use crate::qcow2::write::plan::bitmap;

/// The number of zeroes to write at once.
const ZEROES_BYTES: u64 = 1 << 20;

/// The operation on clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unmap {
    /// Make them read as zeroes and keep their allocation, because they will be written again.
    Zero,
    /// Make them read as zeroes even where no backing file shows through now, because the image may
    /// get another backing file.
    Hide,
    /// Free them, because their contents are no longer needed.
    Discard,
    /// Free them and leave no trace, because the disk no longer has this range. A backing file may
    /// show through.
    Drop,
}

/// The change of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// No change; the entry is already right.
    Nothing,
    /// The new entry; the clusters of the old one stay referenced.
    Keep(StandardCluster),
    /// The new entry; the clusters of the old one are freed.
    Free(StandardCluster),
    /// Writing zeroes as data, because no flag can express the change.
    AsData,
}

impl Writer {
    /// Makes the range read as zeroes; the caller has checked it.
    pub(crate) fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.begin()?;
        self.record(offset, len_bytes);
        self.zero_range(offset..offset.saturating_add(len_bytes))?;
        self.flush_if_large()
    }

    /// Makes the range read as zeroes, without marking it in bitmaps.
    pub(super) fn zero_range(&self, range: Range<u64>) -> Result<()> {
        let Range { start: offset, end } = range;
        let bits = if self.has_zero_flag() {
            self.geometry().subcluster_bits()
        } else {
            self.geometry().cluster_bits()
        };
        let whole = self.whole_units(offset, end, bits);
        if whole.is_empty() {
            return self.zero_as_data(offset..end);
        }
        self.zero_as_data(offset..whole.start)?;
        self.zero_whole(whole.clone())?;
        self.zero_as_data(whole.end.min(end)..end)
    }

    /// Frees the clusters of a range that the disk no longer has. The range must consist of whole
    /// clusters.
    pub(super) fn drop_clusters(&self, range: Range<u64>) -> Result<()> {
        self.unmap(range, Unmap::Drop)
    }

    /// Makes the range read as zeroes whatever backing file this image gets; the caller has checked
    /// it.
    pub(crate) fn hide(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.begin()?;
        self.record(offset, len_bytes);
        let end = offset.saturating_add(len_bytes);
        let whole = self.whole_units(offset, end, self.geometry().subcluster_bits());
        if whole.is_empty() || !self.has_zero_flag() || self.is_external_raw() {
            return self.write_zeroes_as_data(offset..end);
        }
        self.write_zeroes_as_data(offset..whole.start)?;
        self.unmap(whole.clone(), Unmap::Hide)?;
        self.write_zeroes_as_data(whole.end.min(end)..end)?;
        self.flush_if_large()
    }

    /// Frees the clusters of the range. It then reads as zeroes or as before, but never as the
    /// backing file.
    pub(crate) fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.begin()?;
        self.record(offset, len_bytes);
        let end = offset.saturating_add(len_bytes);
        let whole = self.whole_units(offset, end, self.geometry().cluster_bits());
        // Without a zero flag the backing file would become visible again.
        let would_reveal = !self.has_zero_flag() && self.reader.backing.get().is_some();
        if whole.is_empty() || would_reveal {
            return Ok(());
        }
        if self.is_external_raw() {
            return self.each_external(whole, |at, len_bytes| self.data().discard(at, len_bytes));
        }
        self.unmap(whole, Unmap::Discard)?;
        self.flush_if_large()
    }

    fn has_zero_flag(&self) -> bool {
        self.reader.mapping.rules.zero_clusters == ZeroClusters::Allowed
    }

    /// Returns the units of `2^bits` bytes that lie within the range. The disk's last unit may be
    /// shorter.
    fn whole_units(&self, start: u64, end: u64, bits: u32) -> Range<u64> {
        let end = if end >= self.size_bytes {
            round_up(end, bits)
        } else {
            end.saturating_sub(low_bits(end, bits))
        };
        round_up(start, bits)..end
    }

    fn zero_whole(&self, range: Range<u64>) -> Result<()> {
        if self.is_external_raw() {
            return self.zero_external(range);
        }
        if !self.has_zero_flag() && self.reader.backing.get().is_some() {
            return self.zero_as_data(range.start..range.end.min(self.size_bytes));
        }
        self.unmap(range, Unmap::Zero)
    }

    /// Writes zeroes where the range does not already read as zeroes.
    fn zero_as_data(&self, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let len_bytes = ZEROES_BYTES.min(range.end.saturating_sub(at));
            if !self.reads_as_zeroes(at, len_bytes)? {
                self.write_at(at, &vec![0; to_usize(len_bytes)])?;
            }
            at = at.saturating_add(len_bytes);
        }
        Ok(())
    }

    pub(super) fn write_zeroes_as_data(&self, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let len_bytes = ZEROES_BYTES.min(range.end.saturating_sub(at));
            self.write_at(at, &vec![0; to_usize(len_bytes)])?;
            at = at.saturating_add(len_bytes);
        }
        Ok(())
    }

    /// Writes zeroes to a raw external data file, which must have zeroes where the guest sees them;
    /// the tables are unchanged. Unallocated ranges are zeroes in both.
    fn zero_external(&self, range: Range<u64>) -> Result<()> {
        self.each_external(range, |at, len_bytes| {
            self.data().write_zeroes(at, len_bytes)
        })
    }

    /// Calls `change` with each stored range of an external data file: its offset and its length.
    fn each_external(
        &self,
        range: Range<u64>,
        change: impl Fn(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let end = range.end.min(self.size_bytes);
        let mut at = GuestOffset(range.start);
        while at.0 < end {
            let _request = self.requests.enter();
            let run = self.reader.mapping.run_at(at, end.saturating_sub(at.0))?;
            if let RunKind::Data(host) = run.kind {
                let there = self.reader.stored_len(host, run.len_bytes)?;
                change(host.0, there)?;
            }
            at = at.plus(run.len_bytes);
        }
        Ok(())
    }

    fn unmap(&self, range: Range<u64>, what: Unmap) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            at = self.with_room(|| self.unmap_in_slice(at..range.end, what))?;
            self.flush_when_full()?;
        }
        Ok(())
    }

    /// Processes the part of the range in its first slice, and returns where that ends.
    fn unmap_in_slice(&self, range: Range<u64>, what: Unmap) -> Result<u64> {
        let geometry = self.geometry();
        let at = GuestOffset(range.start);
        let stop = at.plus(geometry.left_in_slice(at)).0.min(range.end);
        let says_nothing = match what {
            Unmap::Drop => true,
            Unmap::Hide => false,
            Unmap::Zero | Unmap::Discard => self.has_no_backing_data(at),
        };
        if says_nothing && self.reader.mapping.slice(at)?.is_none() {
            return Ok(at.plus(geometry.left_in_l1_entry(at)).0.min(range.end));
        }
        let bits = geometry.cluster_bits();
        let clusters = shift_right(at.0, bits)..shift_right(round_up(stop, bits), bits);
        let mut locked = self.lock().wait_for(&clusters);
        let mut at = at;
        while at.0 < stop {
            let end = at.plus(geometry.left_in_cluster(at)).0.min(stop);
            if locked.unmap_cluster(at.0..end, what)? == Change::AsData {
                drop(locked);
                self.zero_as_data(at.0..end.min(self.size_bytes))?;
                return Ok(end);
            }
            at = GuestOffset(end);
        }
        Ok(stop)
    }

    /// Returns true if no backing file shows through at `at`.
    fn has_no_backing_data(&self, at: GuestOffset) -> bool {
        let backing = self.reader.backing.get();
        backing.is_none_or(|backing| backing.size_bytes() <= at.0)
    }
}

impl Locked<'_> {
    /// Zeroes or discards a range within one cluster.
    fn unmap_cluster(&mut self, range: Range<u64>, what: Unmap) -> Result<Change> {
        let at = GuestOffset(range.start);
        let old = match self.mapping().slice(at)? {
            Some(slice) => self.entry(&slice, at)?,
            None => L2Entry::Standard(StandardCluster::default()),
        };
        let layout = self.rules().geometry.layout();
        let touched = bitmap(self.writer.subclusters(range), layout);
        let change = self.change_of(&old, touched, what, at);
        if let Change::Keep(entry) | Change::Free(entry) = change {
            let slice = self.writable_slice(at)?;
            self.set_entry(&slice, at, entry);
            if let Change::Free(_) = change {
                self.free_entry(&old, Hole::Punch);
            }
        }
        Ok(change)
    }

    fn change_of(&self, old: &L2Entry, touched: u32, what: Unmap, at: GuestOffset) -> Change {
        let is_whole = touched == u32::MAX;
        let has_flag = self.writer.has_zero_flag();
        // In version 2 only unallocated clusters read as zeroes; the caller has checked that no
        // backing file shows through.
        let unallocated = StandardCluster {
            zero: if has_flag && what != Unmap::Drop {
                u32::MAX
            } else {
                0
            },
            ..StandardCluster::default()
        };
        let cluster = match old {
            L2Entry::Compressed(_) if is_whole => return Change::Free(unallocated),
            L2Entry::Compressed(_) => return Change::AsData,
            L2Entry::Standard(cluster) => *cluster,
        };
        let is_zero = if what != Unmap::Hide && self.writer.has_no_backing_data(at) {
            cluster.allocated & touched == 0
        } else {
            touched & !cluster.zero == 0
        };
        let is_stored = cluster.host.is_some();
        match what {
            Unmap::Drop if is_stored => Change::Free(unallocated),
            Unmap::Drop if cluster.zero != 0 => Change::Keep(unallocated),
            Unmap::Drop => Change::Nothing,
            _ if is_zero && (!is_stored || what != Unmap::Discard) => Change::Nothing,
            Unmap::Discard if is_stored => Change::Free(unallocated),
            Unmap::Discard => Change::Keep(unallocated),
            _ if is_whole && is_stored && (!cluster.copied || !has_flag) => {
                Change::Free(unallocated)
            }
            Unmap::Zero | Unmap::Hide => Change::Keep(StandardCluster {
                allocated: cluster.allocated & !touched,
                zero: cluster.zero | touched,
                ..cluster
            }),
        }
    }
}
