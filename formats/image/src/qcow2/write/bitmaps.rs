//! Persistent bitmaps: specification, section "Bitmaps".
//!
//! A recording bitmap tells a backup which parts to copy, so every write must be marked in it.
//! Before the first write the bitmap is flagged as in use, which makes it void for other programs.
//! After the last write its bits are stored and the flag is cleared. A crash leaves the flag set.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use diskfs_block::{Error, Result};

use crate::description::BitmapState;
use crate::numbers::{low_bits, shift_right, to_usize};
use crate::qcow2::bitmap_directory::{self, BitmapEntry, IN_USE};
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::Writer;
use crate::qcow2::write::marks::Marks;

/// The bits of the offset in a bitmap table entry: 9 to 55.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// The table entry of a cluster of ones that is not stored.
const ALL_ONES: u64 = 1;

/// The writes since the bitmap was flagged as in use.
#[derive(Debug)]
pub(super) struct Recorder {
    entry: BitmapEntry,
    marks: Marks,
}

/// A table entry to write when the cluster to which it points is durable.
type NewEntry = (HostOffset, u64);

impl Writer {
    /// Flags recording bitmaps as in use. Returns false if the bitmaps cannot be read, and are void
    /// from now on.
    pub(super) fn begin_bitmaps(&self) -> Result<bool> {
        if !self.header.autoclear.bitmaps() {
            return Ok(true);
        }
        let image = self.image.as_ref();
        let Ok(entries) = bitmap_directory::read(image, &self.header) else {
            return Ok(false);
        };
        let mut recorders = self.recorders();
        for entry in entries {
            let state = entry.bitmap.state;
            if !entry.bitmap.recording || state == BitmapState::Inconsistent {
                continue;
            }
            self.write_flags(&entry, entry.flags | IN_USE)?;
            if entry.is_understood {
                let marks = Marks::new(entry.bitmap.granularity_bytes);
                recorders.push(Recorder { entry, marks });
            }
        }
        self.records.store(!recorders.is_empty(), Ordering::Release);
        drop(recorders);
        self.image.flush()?;
        Ok(true)
    }

    fn recorders(&self) -> MutexGuard<'_, Vec<Recorder>> {
        self.recorders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write_flags(&self, entry: &BitmapEntry, flags: u32) -> Result<()> {
        self.check_not_over_tables(entry.flags_at(), 4)?;
        self.image
            .write_at(entry.flags_at().0, &flags.to_be_bytes())
    }

    fn check_not_over_tables(&self, at: HostOffset, len_bytes: u64) -> Result<()> {
        if !self.header.overlaps_tables(at, len_bytes) {
            return Ok(());
        }
        Err(Error::corrupt("a bitmap overlaps the image's own tables").at(at.0))
    }

    /// Marks a range that is about to be written.
    pub(super) fn record(&self, offset: u64, len_bytes: u64) {
        if len_bytes == 0 || !self.records.load(Ordering::Acquire) {
            return;
        }
        for recorder in self.recorders().iter_mut() {
            recorder
                .marks
                .mark(offset, offset.saturating_add(len_bytes));
        }
    }

    /// Stores the recorded bits, and makes the bitmaps available to other programs.
    pub(super) fn store_bitmaps(&self) -> Result<()> {
        let recorders = std::mem::take(&mut *self.recorders());
        self.records.store(false, Ordering::Release);
        let mut stored = Vec::new();
        let mut entries = Vec::new();
        for recorder in recorders {
            match self.store_bits(&recorder) {
                Ok(more) if !recorder.marks.is_lost() => {
                    entries.extend(more);
                    stored.push(recorder.entry);
                }
                // The bitmap stays in use, and void: the disk matters more than a bitmap.
                Ok(_) => tracing::warn!("a bitmap became too large and is now void"),
                Err(e) => tracing::warn!("a bitmap is now void: {e}"),
            }
        }
        if stored.is_empty() {
            return Ok(());
        }
        self.flush()?;
        for (at, entry) in &entries {
            self.image.write_at(at.0, &entry.to_be_bytes())?;
        }
        self.image.flush()?;
        for entry in &stored {
            self.write_flags(entry, entry.flags & !IN_USE)?;
        }
        self.image.flush()
    }

    fn store_bits(&self, recorder: &Recorder) -> Result<Vec<NewEntry>> {
        let mut places: BTreeMap<u64, HostOffset> = BTreeMap::new();
        let mut added = Vec::new();
        for (at, part) in recorder.marks.parts(self.geometry()) {
            self.store_part(recorder, at, part, &mut places, &mut added)?;
        }
        Ok(added)
    }

    /// Adds the bits of `part`, which begin at byte `at` of the bitmap, to the stored bits.
    fn store_part(
        &self,
        recorder: &Recorder,
        at: u64,
        part: &[u8],
        places: &mut BTreeMap<u64, HostOffset>,
        added: &mut Vec<NewEntry>,
    ) -> Result<()> {
        let bits = self.geometry().cluster_bits();
        let index = shift_right(at, bits);
        let in_cluster = low_bits(at, bits);
        if let Some(cluster) = places.get(&index) {
            return self.add_bits(cluster.plus(in_cluster), part);
        }
        let entry_at = recorder.entry.table_at.plus(index.saturating_mul(8));
        if index >= u64::from(recorder.entry.table_entries) {
            return Err(Error::corrupt("bitmap table is too short for the disk").at(entry_at.0));
        }
        self.check_not_over_tables(entry_at, 8)?;
        let mut entry = [0; 8];
        self.image.read_at(entry_at.0, &mut entry)?;
        let entry = u64::from_be_bytes(entry);
        let cluster = match entry & OFFSET_MASK {
            0 if entry & ALL_ONES != 0 => return Ok(()),
            0 => {
                let cluster = self.add_bitmap_cluster()?;
                added.push((entry_at, cluster.0));
                cluster
            }
            place => HostOffset(place),
        };
        self.check_not_over_tables(cluster, self.geometry().cluster_size())?;
        places.insert(index, cluster);
        self.add_bits(cluster.plus(in_cluster), part)
    }

    /// Allocates a cluster of zeroes. Nothing refers to it before its count is durable.
    fn add_bitmap_cluster(&self) -> Result<HostOffset> {
        let mut locked = self.lock();
        let run = locked.allocate(1)?;
        let at = locked.place_of(run.first);
        drop(locked);
        let zeroes = vec![0; to_usize(self.geometry().cluster_size())];
        self.image.write_at(at.0, &zeroes)?;
        Ok(at)
    }

    fn add_bits(&self, at: HostOffset, part: &[u8]) -> Result<()> {
        let mut stored = vec![0; part.len()];
        self.image.read_at(at.0, &mut stored)?;
        for (old, new) in stored.iter_mut().zip(part) {
            *old |= new;
        }
        self.image.write_at(at.0, &stored)
    }
}
