//! Writing to a volume with copies: before the first write the copies are marked as out of sync,
//! and at the end as in sync again. After a crash in between, the kernel copies one to the others.
//!
//! The kernel does the same with its "active" and "clean" arrays. If there is a write-intent
//! bitmap, its event count is left behind while the copies are marked, so that the kernel does not
//! trust it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, BlockWrite, Error, Extent, Result, len_of};

use super::{Area, Mapped};

/// The superblock of an image or member with copies elsewhere.
pub(crate) struct Mark<D: ?Sized> {
    pub(crate) superblock: Area<D>,
    /// The write-intent bitmap's superblock, if there is one.
    pub(crate) bitmap: Option<Area<D>>,
    pub(crate) change: Change,
}

/// The functions that read and change a superblock. Both return `None` if it is no longer a
/// superblock.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// Reads the event count and the state of the copies.
    pub(crate) get: fn(&[u8]) -> Option<(u64, Copies)>,
    /// Writes the event count and the state of the copies.
    pub(crate) set: fn(&mut [u8], u64, Copies) -> Option<()>,
}

/// The state of the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    Alike,
    PerhapsNot,
}

/// The magic number of a bitmap, and the offset of its event count: `bitmap_super_t`, Linux,
/// `drivers/md/md-bitmap.h`.
const BITMAP_MAGIC: [u8; 4] = *b"bitm";
const BITMAP_EVENTS_AT: u64 = 24;

impl<D: BlockRead + ?Sized> Mark<D> {
    fn superblock(&self) -> Result<Vec<u8>> {
        let len = usize::try_from(self.superblock.len_bytes()).unwrap_or(0);
        let mut bytes = vec![0; len];
        self.superblock.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the event count if the copies are in sync and the bitmap is up to date.
    fn events(&self) -> Result<Option<u64>> {
        let Some((events, Copies::Alike)) = (self.change.get)(&self.superblock()?) else {
            return Ok(None);
        };
        let Some(bitmap) = &self.bitmap else {
            return Ok(Some(events));
        };
        let (mut magic, mut says) = ([0; 4], [0; 8]);
        bitmap.read_at(0, &mut magic)?;
        bitmap.read_at(BITMAP_EVENTS_AT, &mut says)?;
        let knows = magic == BITMAP_MAGIC && u64::from_le_bytes(says) == events;
        Ok(knows.then_some(events))
    }
}

/// Returns the common event count. The counts must be equal; otherwise some copies are out of date.
fn common_events<D: BlockRead + ?Sized>(marks: &[Mark<D>]) -> Result<u64> {
    let mut common = None;
    for mark in marks {
        let events = mark.events()?;
        if events.is_none() || common.is_some_and(|common| Some(common) != events) {
            let reason = "has copies that are not in sync, or that another program is writing";
            return Err(
                Error::unsupported(reason).with_hint("let the guest's kernel repair it first")
            );
        }
        common = events;
    }
    Ok(common.unwrap_or(0))
}

impl<D: BlockWrite + ?Sized> Mark<D> {
    fn set(&self, events: u64, copies: Copies) -> Result<()> {
        let mut bytes = self.superblock()?;
        let gone = || Error::corrupt("the superblock of a RAID has disappeared");
        (self.change.set)(&mut bytes, events, copies).ok_or_else(gone)?;
        if let (Some(bitmap), Copies::Alike) = (&self.bitmap, copies) {
            bitmap.write_at(BITMAP_EVENTS_AT, &events.to_le_bytes())?;
        }
        self.superblock.write_at(0, &bytes)
    }
}

/// A [`Mapped`] that is open for writing.
pub struct Writable<D: BlockWrite + ?Sized> {
    volume: Mapped<D>,
    marks: Vec<Mark<D>>,
    /// The event count of the superblocks while they are marked.
    marked: Mutex<Option<u64>>,
    /// True if a write failed, so that the copies may differ.
    has_failed: AtomicBool,
    devices: Vec<Arc<D>>,
}

impl<D: BlockWrite + ?Sized> fmt::Debug for Writable<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writable")
            .field("volume", &self.volume)
            .field("marks", &self.marks.len())
            .finish_non_exhaustive()
    }
}

impl<D: BlockWrite + ?Sized> Writable<D> {
    /// Prepares a volume for writing.
    ///
    /// # Errors
    /// `Unsupported` for copies that are not in sync.
    pub(crate) fn new(volume: Mapped<D>, marks: Vec<Mark<D>>) -> Result<Self> {
        common_events(&marks)?;
        let mut devices = volume.devices.clone();
        let areas = marks.iter().map(|mark| mark.superblock.source());
        let of_marks: Vec<Arc<D>> = areas
            .flat_map(super::area::Source::devices)
            .cloned()
            .collect();
        for device in of_marks {
            if !devices.iter().any(|known| Arc::ptr_eq(known, &device)) {
                devices.push(device);
            }
        }
        Ok(Self {
            volume,
            marks,
            marked: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            devices,
        })
    }

    /// Marks the copies before the first write. Concurrent writers wait for that.
    fn begin(&self) -> Result<()> {
        if self.marks.is_empty() {
            return Ok(());
        }
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        if marked.is_none() {
            let events = common_events(&self.marks)?.saturating_add(1);
            self.set_all(events, Copies::PerhapsNot)?;
            *marked = Some(events);
        }
        Ok(())
    }

    fn set_all(&self, events: u64, copies: Copies) -> Result<()> {
        self.flush()?;
        let mut marks = self.marks.iter();
        marks.try_for_each(|mark| mark.set(events, copies))?;
        self.flush()
    }

    fn writing(&self, write: impl FnOnce(&Mapped<D>) -> Result<()>) -> Result<()> {
        self.begin()?;
        let answer = write(&self.volume);
        if answer.is_err() {
            self.has_failed.store(true, Ordering::Release);
        }
        answer
    }
}

impl<D: BlockWrite + ?Sized> Drop for Writable<D> {
    fn drop(&mut self) {
        let marked = self
            .marked
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(events) = marked.take().filter(|_| !*self.has_failed.get_mut()) else {
            return;
        };
        if let Err(error) = self.set_all(events.saturating_add(1), Copies::Alike) {
            // No data is lost: the kernel copies one to the others.
            tracing::warn!(%error, "cannot mark the copies of a RAID as in sync");
        }
    }
}

impl<D: BlockWrite + ?Sized> BlockRead for Writable<D> {
    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.volume.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.volume.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.volume.stored_at(offset)
    }

    fn block_size(&self) -> u32 {
        self.volume.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.volume.will_need(offset, len_bytes);
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Writable<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        // A write that is refused marks nothing.
        self.volume.check_write(offset, len_of(buf))?;
        self.writing(|volume| volume.write_at(offset, buf))
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.volume.check_zero(offset, len_bytes)?;
        self.writing(|volume| volume.write_zeroes(offset, len_bytes))
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        if self.marks.is_empty() {
            return self.volume.discard(offset, len_bytes);
        }
        // Discarded ranges of the copies need not be equal, and a discard is not worth marking the
        // copies.
        diskfs_block::check_bounds(offset, len_bytes, self.size_bytes())
    }

    fn flush(&self) -> Result<()> {
        self.devices.iter().try_for_each(|device| device.flush())
    }
}
