//! Copying of a disk into a new image, which is written from its beginning to its end.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::sync::{Mutex, PoisonError};

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, Result, WriteAt};

use super::packer::Packer;
use super::parallel::{Turn, for_each};
use super::pieces::{Piece, Pieces, Skipped};
use crate::numbers::{to_u64, to_usize};

/// An image that is written from its beginning to its end, unit by unit.
///
/// Its methods are called in the order of the disk, by one thread at a time, so that the file does
/// not depend on the number of threads. Reading and compressing the units, and writing those that
/// get a place, is done by several threads.
pub(super) trait Target: Send {
    /// Adds zeroes: whole units, except at the end of the disk. The default adds nothing, for a
    /// target that reads as zeroes where nothing was added.
    fn add_zeroes(&mut self, offset: u64, len_bytes: u64, write: &mut WriteAt<'_>) -> Result<()> {
        let _ = (offset, len_bytes, write);
        Ok(())
    }

    /// Adds a unit. Returns the place in the file at which the caller then writes `bytes`; `None`
    /// if the target has written them itself.
    fn add(
        &mut self,
        offset: u64,
        bytes: &[u8],
        form: Form,
        write: &mut WriteAt<'_>,
    ) -> Result<Option<u64>>;
}

/// The form of a unit with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Packed,
}

/// The units of a target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    /// The size of a unit, a power of two.
    pub(super) unit_bytes: u64,
    /// The parts of the disk that are not added.
    pub(super) skipped: Skipped,
    /// True if zeroes are added as such, and not like data.
    pub(super) omits_zeroes: bool,
    /// True if zeroes fill up the last unit of the disk.
    pub(super) is_padded: bool,
}

/// A copy into a new image.
#[derive(Clone, Copy)]
pub(super) struct SequentialCopy<'a> {
    pub(super) from: &'a dyn BlockRead,
    pub(super) units: Units,
    /// Creates the compressor of a thread, if units are compressed.
    pub(super) new_packer: &'a (dyn Fn() -> Result<Option<Packer>> + Sync),
    /// Writes to the file.
    pub(super) write: &'a (dyn Fn(u64, &[u8]) -> Result<()> + Sync),
    pub(super) threads: NonZeroUsize,
}

/// A unit, with its part of the buffer of its form.
enum Stored {
    Zeroes(u64),
    Data(Range<usize>, Form),
}

/// The buffers of one thread.
struct Buffers {
    data: Vec<u8>,
    packed: Vec<u8>,
    packer: Option<Packer>,
    units: Vec<Stored>,
    writes: Vec<PendingWrite>,
}

/// A part of a buffer, with its offset in the image.
struct PendingWrite {
    at: u64,
    range: Range<usize>,
    form: Form,
}

impl SequentialCopy<'_> {
    /// Adds all units to the target.
    pub(super) fn run(
        &self,
        target: &mut dyn Target,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut pieces = Pieces::new(self.from, self.units.unit_bytes, self.units.skipped);
        if !self.units.omits_zeroes {
            pieces = pieces.with_small_zeroes(); // They are stored like data.
        }
        let target = Mutex::new(target);
        let work = |buffers: &mut Buffers, piece: Piece, turn: Turn<'_>| {
            self.prepare(buffers, piece)?;
            turn.take(|| {
                let mut target = target.lock().unwrap_or_else(PoisonError::into_inner);
                self.place(&mut **target, buffers, piece)
            })?;
            self.write(buffers)
        };
        for_each(pieces, self.threads, || self.buffers(), work, progress)
    }

    fn buffers(&self) -> Result<Buffers> {
        Ok(Buffers {
            data: Vec::new(),
            packed: Vec::new(),
            packer: (self.new_packer)()?,
            units: Vec::new(),
            writes: Vec::new(),
        })
    }

    /// Reads a piece, and compresses its units.
    fn prepare(&self, buffers: &mut Buffers, piece: Piece) -> Result<()> {
        buffers.units.clear();
        buffers.packed.clear();
        buffers.writes.clear();
        if piece.is_zero && self.units.omits_zeroes {
            buffers.units.push(Stored::Zeroes(piece.len_bytes));
            return Ok(());
        }
        let unit = to_usize(self.units.unit_bytes);
        let len = to_usize(piece.len_bytes);
        let padded = if self.units.is_padded {
            len.next_multiple_of(unit)
        } else {
            len
        };
        buffers.data.resize(padded, 0);
        let (data, rest) = buffers.data.split_at_mut(len);
        self.from.read_at(piece.offset, data)?;
        rest.fill(0);
        let mut start = 0_usize;
        for bytes in buffers.data.chunks(unit) {
            let data = start..start.saturating_add(bytes.len());
            start = data.end;
            let stored = if self.units.omits_zeroes && is_zero(bytes) {
                Stored::Zeroes(to_u64(bytes.len()))
            } else if let Some(packer) = &mut buffers.packer
                && let before = buffers.packed.len()
                && packer.pack(bytes, &mut buffers.packed)?.is_some()
            {
                Stored::Data(before..buffers.packed.len(), Form::Packed)
            } else {
                Stored::Data(data, Form::Plain)
            };
            buffers.units.push(stored);
        }
        Ok(())
    }

    /// Adds the units of a piece to the target.
    fn place(&self, target: &mut dyn Target, buffers: &mut Buffers, piece: Piece) -> Result<()> {
        let mut write = |at: u64, bytes: &[u8]| (self.write)(at, bytes);
        let mut offset = piece.offset;
        for stored in buffers.units.drain(..) {
            let (range, form) = match stored {
                Stored::Zeroes(len_bytes) => {
                    target.add_zeroes(offset, len_bytes, &mut write)?;
                    offset = offset.saturating_add(len_bytes);
                    continue;
                }
                Stored::Data(range, form) => (range, form),
            };
            let buffer = match form {
                Form::Plain => &buffers.data,
                Form::Packed => &buffers.packed,
            };
            let bytes = buffer.get(range.clone()).unwrap_or_default();
            let place = target.add(offset, bytes, form, &mut write)?;
            offset = offset.saturating_add(self.units.unit_bytes);
            let Some(at) = place else {
                continue;
            };
            let new = PendingWrite { at, range, form };
            let last = buffers.writes.last_mut();
            if !last.is_some_and(|last| last.extend(&new)) {
                buffers.writes.push(new);
            }
        }
        Ok(())
    }

    fn write(&self, buffers: &Buffers) -> Result<()> {
        for write in &buffers.writes {
            let buffer = match write.form {
                Form::Plain => &buffers.data,
                Form::Packed => &buffers.packed,
            };
            let bytes = buffer.get(write.range.clone()).unwrap_or_default();
            (self.write)(write.at, bytes)?;
        }
        Ok(())
    }
}

impl PendingWrite {
    /// Appends a write that continues this one in the image and in the buffer.
    fn extend(&mut self, next: &Self) -> bool {
        let continues = self.form == next.form
            && self.range.end == next.range.start
            && self.at.saturating_add(to_u64(self.range.len())) == next.at;
        if continues {
            self.range.end = next.range.end;
        }
        continues
    }
}
