//! A volume that is written: copies that are alike are marked as perhaps not so before the first
//! write, and as alike again at the end. In between, a crash makes the kernel copy one to the others.
//!
//! It is what the kernel does with its "active" and "clean" arrays. Where there is a bitmap of what
//! was written, its number of events stays behind while it is marked, so that the kernel doesn't
//! believe it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, BlockWrite, Error, Extent, Result, len_of};

use super::{Area, Mapped};

/// A superblock of an image or member that has copies elsewhere.
pub(crate) struct Mark<D: ?Sized> {
    pub(crate) superblock: Area<D>,
    /// Where there is one: its superblock.
    pub(crate) bitmap: Option<Area<D>>,
    pub(crate) change: Change,
}

/// What a superblock says, and how it is made to say something else. Of what is no superblock any more
/// neither gives anything.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// The events, and what the copies are.
    pub(crate) get: fn(&[u8]) -> Option<(u64, Copies)>,
    /// Sets both.
    pub(crate) set: fn(&mut [u8], u64, Copies) -> Option<()>,
}

/// What is said of the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    Alike,
    PerhapsNot,
}

/// `bitmap_super_t`: its magic, and where its events are. Linux, `drivers/md/md-bitmap.h`.
const BITMAP_MAGIC: [u8; 4] = *b"bitm";
const BITMAP_EVENTS_AT: u64 = 24;

impl<D: BlockRead + ?Sized> Mark<D> {
    fn superblock(&self) -> Result<Vec<u8>> {
        let len = usize::try_from(self.superblock.len_bytes()).unwrap_or(0);
        let mut bytes = vec![0; len];
        self.superblock.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The events, if the copies are alike and the bitmap knows of all that was.
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

/// The events of all, which must be the same: with other ones some would be out of date.
fn common_events<D: BlockRead + ?Sized>(marks: &[Mark<D>]) -> Result<u64> {
    let mut common = None;
    for mark in marks {
        let events = mark.events()?;
        if events.is_none() || common.is_some_and(|common| Some(common) != events) {
            let reason = "has copies that are not in sync, or that somebody else writes";
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
        let gone = || Error::corrupt("the superblock of a RAID is not there any more");
        (self.change.set)(&mut bytes, events, copies).ok_or_else(gone)?;
        if let (Some(bitmap), Copies::Alike) = (&self.bitmap, copies) {
            bitmap.write_at(BITMAP_EVENTS_AT, &events.to_le_bytes())?;
        }
        self.superblock.write_at(0, &bytes)
    }
}

/// A [`Mapped`] that is written.
pub struct Writable<D: BlockWrite + ?Sized> {
    volume: Mapped<D>,
    marks: Vec<Mark<D>>,
    /// With how many events, once they are marked.
    marked: Mutex<Option<u64>>,
    /// A write failed, and nobody knows which copies have it.
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

    /// Marks the copies before the first write. Whoever writes waits for that.
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
            // Nothing is lost: the kernel copies one to the others.
            tracing::warn!(%error, "the copies of a RAID could not be marked as alike");
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

    fn block_size(&self) -> u32 {
        self.volume.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.volume.will_need(offset, len_bytes);
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Writable<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        // What can't be written marks nothing.
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
        // Copies need not be alike where they were discarded; that is not worth a mark.
        diskfs_block::check_bounds(offset, len_bytes, self.size_bytes())
    }

    fn flush(&self) -> Result<()> {
        self.devices.iter().try_for_each(|device| device.flush())
    }
}
