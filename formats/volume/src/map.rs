//! A device that is put together of parts of others: what logical volumes and arrays have in common.
//!
//! A [`Mapped`] is a row of segments; each is laid out on its members by a [`Geometry`]. A read is
//! cut where a member's run of bytes ends and handed on, into the caller's buffer: nothing is copied
//! and nothing is locked.

mod area;
mod geometry;
mod gf;
mod moved;
mod parity;
mod remapped;
mod writable;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use diskfs_block::{
    BlockRead, BlockWrite, Error, ErrorKind, Extent, ExtentKind, Result, check_bounds, len_of,
};

pub(crate) use area::{Area, Source};
pub(crate) use geometry::{Far, Geometry};
pub(crate) use moved::Moved;
pub(crate) use parity::{Parity, Rotation, Sums};
pub(crate) use remapped::{Access, Piece, Remapped, Table, Target};
pub use writable::Writable;
pub(crate) use writable::{Change, Copies, Mark};

/// A volume as a device: segments on parts of other devices.
///
/// Made by [`VolumeGroup::open`](crate::lvm::VolumeGroup::open) and [`Array::open`](crate::md::Array::open). It can be written when the devices
/// below can.
pub struct Mapped<D: ?Sized = dyn BlockRead> {
    size_bytes: u64,
    /// In order, without gaps.
    segments: Vec<Segment<D>>,
    /// What is below all of it, each once: what a flush is for.
    devices: Vec<Arc<D>>,
}

impl<D: ?Sized> fmt::Debug for Mapped<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped")
            .field("size_bytes", &self.size_bytes)
            .field("segments", &self.segments.len())
            .field("devices", &self.devices.len())
            .finish_non_exhaustive()
    }
}

/// A run of a volume that is laid out in one way.
pub(crate) struct Segment<D: ?Sized> {
    start_bytes: u64,
    len_bytes: u64,
    layout: Layout<D>,
}

/// What a segment is made of.
pub(crate) enum Layout<D: ?Sized> {
    /// Parts of devices.
    Members(Members<D>),
    /// Blocks of devices, by a table.
    Remapped(Remapped<D>),
    /// Nothing: it reads as zeroes, and what is written is forgotten.
    Zeroes,
    /// Nothing: it cannot be read or written.
    Error,
}

/// Members, and how bytes are dealt out to them.
pub(crate) struct Members<D: ?Sized> {
    geometry: Geometry,
    /// `None` for one that is missing or out of date.
    areas: Vec<Option<Area<D>>>,
    count: NonZeroUsize,
}

impl<D: BlockRead + ?Sized> Members<D> {
    /// `None` without any member.
    pub(crate) fn new(geometry: Geometry, areas: Vec<Option<Area<D>>>) -> Option<Self> {
        let count = NonZeroUsize::new(areas.len())?;
        Some(Self {
            geometry,
            areas,
            count,
        })
    }

    /// The copies of the byte at `offset` that are there, with the byte of the member.
    fn copies(&self, offset: u64) -> impl Iterator<Item = (&Area<D>, u64)> {
        (0..self.geometry.copies(self.count)).filter_map(move |copy| {
            let place = self.geometry.place(offset, copy, self.count);
            Some((self.areas.get(place.member)?.as_ref()?, place.offset))
        })
    }

    /// What the first copy that can be had answers; with none, what the last one said.
    fn first<T>(&self, offset: u64, mut ask: impl FnMut(&Area<D>, u64) -> Result<T>) -> Result<T> {
        let mut answer = Err(Error::new(
            ErrorKind::NotFound,
            "all members that have this part of the volume are missing",
        ));
        for (area, offset) in self.copies(offset) {
            answer = ask(area, offset);
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let direct = self.first(offset, |area, offset| area.read_at(offset, buf));
        match (direct, self.geometry) {
            (Err(_), Geometry::Parity { parity, .. }) => {
                let place = self.geometry.place(offset, 0, self.count);
                parity::rebuild(self, parity, place.row, place.member, place.offset, buf)
            }
            (direct, _) => direct,
        }
    }

    fn extent(&self, offset: u64, len_bytes: u64) -> Result<Extent> {
        match (self.first(offset, Area::extent_at), self.geometry) {
            // What is computed has to be read.
            (Err(_), Geometry::Parity { .. }) => Ok(Extent {
                len_bytes,
                kind: ExtentKind::Data,
            }),
            (direct, _) => direct,
        }
    }
}

impl<D: BlockRead + ?Sized> Mapped<D> {
    /// A volume of these segments in their order: each its length and layout.
    ///
    /// # Errors
    /// `Corrupt` when they are longer than any device.
    pub(crate) fn new(layouts: Vec<(u64, Layout<D>)>) -> Result<Self> {
        let mut volume = Self {
            size_bytes: 0,
            segments: Vec::with_capacity(layouts.len()),
            devices: Vec::new(),
        };
        for (len_bytes, layout) in layouts {
            let start_bytes = volume.size_bytes;
            volume.size_bytes = start_bytes
                .checked_add(len_bytes)
                .ok_or_else(|| Error::corrupt("a volume is longer than any device"))?;
            layout.areas().for_each(|area| volume.note(area));
            volume.segments.push(Segment {
                start_bytes,
                len_bytes,
                layout,
            });
        }
        Ok(volume)
    }

    /// Notes the devices below a member.
    fn note(&mut self, area: &Area<D>) {
        for device in area.source().devices() {
            if !self.devices.iter().any(|known| Arc::ptr_eq(known, device)) {
                self.devices.push(Arc::clone(device));
            }
        }
    }

    /// The run of bytes from `offset` on that is in one piece on the members.
    fn run_at(&self, offset: u64) -> Result<Run<'_, D>> {
        let after = self
            .segments
            .partition_point(|segment| segment.start_bytes <= offset);
        let segment = after
            .checked_sub(1)
            .and_then(|index| self.segments.get(index));
        let run = segment.map(|segment| segment.run_at(offset)).transpose()?;
        // A segment is never empty, and callers check the volume's end first.
        run.filter(|run| run.len_bytes > 0)
            .ok_or_else(|| Error::corrupt("a volume has a gap").at(offset))
    }
}

impl<D: BlockRead + ?Sized> Layout<D> {
    /// All that it is put together of.
    fn areas(&self) -> impl Iterator<Item = &Area<D>> {
        let (members, tables) = match self {
            Self::Members(members) => (&members.areas[..], &[][..]),
            Self::Remapped(remapped) => (&[][..], remapped.areas()),
            Self::Zeroes | Self::Error => (&[][..], &[][..]),
        };
        members.iter().flatten().chain(tables)
    }
}

/// A piece of a segment.
struct Run<'a, D: ?Sized> {
    below: Below<'a, D>,
    len_bytes: u64,
}

/// Where a piece is, from a byte on.
enum Below<'a, D: ?Sized> {
    Members(&'a Members<D>, u64),
    One(&'a Area<D>, u64, Access),
    /// A table has nothing for it.
    Hole(Access),
    Zeroes,
    Error,
}

impl<D: BlockRead + ?Sized> Segment<D> {
    fn run_at(&self, offset: u64) -> Result<Run<'_, D>> {
        let within = offset.saturating_sub(self.start_bytes);
        let left = self.len_bytes.saturating_sub(within);
        let (below, len_bytes) = match &self.layout {
            Layout::Members(members) => (
                Below::Members(members, within),
                members.geometry.run_bytes(within, left),
            ),
            Layout::Remapped(remapped) => return remapped.run_at(within, left),
            Layout::Zeroes => (Below::Zeroes, left),
            Layout::Error => (Below::Error, left),
        };
        Ok(Run { below, len_bytes })
    }
}

impl<D: BlockRead + ?Sized> Run<'_, D> {
    fn read(&self, buf: &mut [u8]) -> Result<()> {
        match self.below {
            Below::Members(members, offset) => members.read(offset, buf),
            Below::One(area, offset, _) => area.read_at(offset, buf),
            Below::Hole(_) | Below::Zeroes => {
                buf.fill(0);
                Ok(())
            }
            Below::Error => Err(error_segment()),
        }
    }

    fn extent(&self) -> Result<Extent> {
        let nothing = |kind| Extent {
            len_bytes: self.len_bytes,
            kind,
        };
        let extent = match self.below {
            Below::Members(members, offset) => members.extent(offset, self.len_bytes)?,
            Below::One(area, offset, _) => area.extent_at(offset)?,
            Below::Hole(_) => nothing(ExtentKind::Unallocated),
            Below::Zeroes => nothing(ExtentKind::Zero),
            Below::Error => return Err(error_segment()),
        };
        Ok(Extent {
            len_bytes: extent.len_bytes.min(self.len_bytes),
            ..extent
        })
    }

    fn will_need(&self, len_bytes: u64) {
        match self.below {
            Below::Members(members, offset) => {
                if let Some((area, offset)) = members.copies(offset).next() {
                    area.will_need(offset, len_bytes);
                }
            }
            Below::One(area, offset, _) => area.will_need(offset, len_bytes),
            Below::Hole(_) | Below::Zeroes | Below::Error => {}
        }
    }
}

fn error_segment() -> Error {
    Error::new(
        ErrorKind::Io,
        "this part of the volume is of the type `error`, which can't be read or written",
    )
}

impl<D: BlockWrite + ?Sized> Run<'_, D> {
    /// Does something to every copy.
    fn each(&self, mut change: impl FnMut(&Area<D>, u64) -> Result<()>) -> Result<()> {
        match self.below {
            Below::Members(members, offset) => members
                .copies(offset)
                .try_for_each(|(area, offset)| change(area, offset)),
            Below::One(area, offset, Access::Granted) => change(area, offset),
            Below::One(.., Access::Refused(reason)) | Below::Hole(Access::Refused(reason)) => {
                Err(Error::unsupported(format!("the volume {reason}")))
            }
            Below::Zeroes | Below::Hole(Access::Granted) => Ok(()),
            Below::Error => Err(error_segment()),
        }
    }

    /// The same, but for what is not stored: zeroes need nothing there.
    fn each_stored(&self, change: impl FnMut(&Area<D>, u64) -> Result<()>) -> Result<()> {
        match self.below {
            Below::Hole(_) => Ok(()),
            _ => self.each(change),
        }
    }
}

/// Where a buffer's first `len_bytes` bytes end; it has that many.
fn index_of(len_bytes: u64, buf: &[u8]) -> usize {
    usize::try_from(len_bytes).map_or(buf.len(), |len| len.min(buf.len()))
}

impl<D: BlockRead + ?Sized> Mapped<D> {
    /// Calls `visit` with each run of a range and its length, until one fails.
    fn each_run(
        &self,
        offset: u64,
        len_bytes: u64,
        mut visit: impl FnMut(&Run<'_, D>, u64) -> Result<()>,
    ) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes)?;
        let (mut at, mut left) = (offset, len_bytes);
        while left > 0 {
            let run = self.run_at(at)?;
            let len_bytes = run.len_bytes.min(left);
            visit(&run, len_bytes).map_err(|e| e.at(at))?;
            at = at.saturating_add(len_bytes);
            left = left.saturating_sub(len_bytes);
        }
        Ok(())
    }
}

impl<D: BlockRead + ?Sized> BlockRead for Mapped<D> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut rest = buf;
        let len_bytes = len_of(rest);
        self.each_run(offset, len_bytes, |run, len_bytes| {
            let at = index_of(len_bytes, rest);
            let (now, later) = std::mem::take(&mut rest).split_at_mut(at);
            rest = later;
            run.read(now)
        })
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes)?;
        self.run_at(offset)?.extent()
    }

    fn block_size(&self) -> u32 {
        let mut areas = self.segments.iter().flat_map(|one| one.layout.areas());
        areas.next().map_or(512, Area::block_size)
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        // Only a hint, and to be had for a range past the end, too.
        let _ = self.each_run(offset, len_bytes, |run, len_bytes| {
            run.will_need(len_bytes);
            Ok(())
        });
    }
}

impl<D: BlockWrite + ?Sized> Mapped<D> {
    /// Whether all of a range can be written where it is. Asked before the first byte is written, so
    /// that a write which can't be done does nothing.
    fn check_write(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.each_run(offset, len_bytes, |run, len_bytes| {
            run.each(|area, offset| area.check_write(offset, len_bytes))
        })
    }

    /// The same for zeroes, of which there are some already.
    fn check_zero(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.each_run(offset, len_bytes, |run, len_bytes| {
            run.each_stored(|area, offset| area.check_write(offset, len_bytes))
        })
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Mapped<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.check_write(offset, len_of(buf))?;
        let mut rest = buf;
        self.each_run(offset, len_of(buf), |run, len_bytes| {
            let (now, later) = rest.split_at(index_of(len_bytes, rest));
            rest = later;
            run.each(|area, offset| area.write_at(offset, now))
        })
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.check_zero(offset, len_bytes)?;
        self.each_run(offset, len_bytes, |run, len_bytes| {
            run.each_stored(|area, offset| area.write_zeroes(offset, len_bytes))
        })
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        // Only a hint: what may not be written stays.
        self.each_run(offset, len_bytes, |run, len_bytes| match run.below {
            Below::One(.., Access::Refused(_)) | Below::Hole(_) => Ok(()),
            _ => run.each(|area, offset| area.discard(offset, len_bytes)),
        })
    }

    fn flush(&self) -> Result<()> {
        self.devices.iter().try_for_each(|device| device.flush())
    }
}
