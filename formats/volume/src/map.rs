//! Devices that are assembled from parts of others: the common base of logical volumes and arrays.
//!
//! A [`Mapped`] is a sequence of segments; a [`Geometry`] maps each to its members. A read is split
//! where a member's run of bytes ends, and passed on into the caller's buffer: nothing is copied
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

/// A volume as a device, with segments on parts of other devices.
///
/// [`VolumeGroup::open`](crate::lvm::VolumeGroup::open) and [`Array::open`](crate::md::Array::open)
/// create it. It can be written if the devices below can.
pub struct Mapped<D: ?Sized = dyn BlockRead> {
    size_bytes: u64,
    /// The segments, in order and without gaps.
    segments: Vec<Segment<D>>,
    /// All devices below, each once, for flushing.
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

/// A run of a volume with one layout.
pub(crate) struct Segment<D: ?Sized> {
    start_bytes: u64,
    len_bytes: u64,
    layout: Layout<D>,
}

/// The layout of a segment.
pub(crate) enum Layout<D: ?Sized> {
    /// Parts of devices.
    Members(Members<D>),
    /// Blocks of devices, found by a table.
    Remapped(Remapped<D>),
    /// Zeroes; writes are ignored.
    Zeroes,
    /// A segment that fails all reads and writes.
    Error,
}

/// The question about the storage of a member: [`Area::extent_at`] or [`Area::stored_at`].
type ExtentQuery<D> = fn(&Area<D>, u64) -> Result<Extent>;

/// The members of a segment, and the geometry that assigns bytes to them.
pub(crate) struct Members<D: ?Sized> {
    geometry: Geometry,
    /// The areas of the members; `None` for one that is missing or out of date.
    areas: Vec<Option<Area<D>>>,
    count: NonZeroUsize,
}

impl<D: BlockRead + ?Sized> Members<D> {
    /// Creates members with a geometry; returns `None` if there are no members.
    pub(crate) fn new(geometry: Geometry, areas: Vec<Option<Area<D>>>) -> Option<Self> {
        let count = NonZeroUsize::new(areas.len())?;
        Some(Self {
            geometry,
            areas,
            count,
        })
    }

    /// Returns the available copies of the byte at `offset`, with its offset on the member.
    fn copies(&self, offset: u64) -> impl Iterator<Item = (&Area<D>, u64)> {
        (0..self.geometry.copies(self.count)).filter_map(move |copy| {
            let place = self.geometry.place(offset, copy, self.count);
            Some((self.areas.get(place.member)?.as_ref()?, place.offset))
        })
    }

    /// Returns the first successful answer among the copies; if all fail, the last error.
    fn first<T>(&self, offset: u64, mut ask: impl FnMut(&Area<D>, u64) -> Result<T>) -> Result<T> {
        let mut answer = Err(Error::new(
            ErrorKind::NotFound,
            "all members with this part of the volume are missing",
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

    fn extent(&self, offset: u64, len_bytes: u64, ask: ExtentQuery<D>) -> Result<Extent> {
        match (self.first(offset, ask), self.geometry) {
            // Bytes that are computed from parity must be read to be known.
            (Err(_), Geometry::Parity { .. }) => Ok(Extent {
                len_bytes,
                kind: ExtentKind::Data,
            }),
            (direct, _) => direct,
        }
    }
}

impl<D: BlockRead + ?Sized> Mapped<D> {
    /// Creates a volume of these segments in their order: the length and layout of each.
    ///
    /// # Errors
    /// `Corrupt` if they are longer than any device.
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
                .ok_or_else(|| Error::corrupt("the volume is too large: longer than any device"))?;
            layout.areas().for_each(|area| volume.note(area));
            volume.segments.push(Segment {
                start_bytes,
                len_bytes,
                layout,
            });
        }
        Ok(volume)
    }

    /// Records the devices below a member.
    fn note(&mut self, area: &Area<D>) {
        for device in area.source().devices() {
            if !self.devices.iter().any(|known| Arc::ptr_eq(known, device)) {
                self.devices.push(Arc::clone(device));
            }
        }
    }

    /// Returns the run of bytes from `offset` on that is contiguous on the members.
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
            .ok_or_else(|| Error::corrupt("the volume has a gap").at(offset))
    }
}

impl<D: BlockRead + ?Sized> Layout<D> {
    /// Returns all areas of the layout.
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
    source: RunSource<'a, D>,
    len_bytes: u64,
}

/// The location of a piece, from a byte on.
enum RunSource<'a, D: ?Sized> {
    Members(&'a Members<D>, u64),
    One(&'a Area<D>, u64, Access),
    /// A hole: the table has no block for it.
    Hole(Access),
    Zeroes,
    Error,
}

impl<D: BlockRead + ?Sized> Segment<D> {
    fn run_at(&self, offset: u64) -> Result<Run<'_, D>> {
        let within = offset.saturating_sub(self.start_bytes);
        let left = self.len_bytes.saturating_sub(within);
        let (source, len_bytes) = match &self.layout {
            Layout::Members(members) => (
                RunSource::Members(members, within),
                members.geometry.run_bytes(within, left),
            ),
            Layout::Remapped(remapped) => return remapped.run_at(within, left),
            Layout::Zeroes => (RunSource::Zeroes, left),
            Layout::Error => (RunSource::Error, left),
        };
        Ok(Run { source, len_bytes })
    }
}

impl<D: BlockRead + ?Sized> Run<'_, D> {
    fn read(&self, buf: &mut [u8]) -> Result<()> {
        match self.source {
            RunSource::Members(members, offset) => members.read(offset, buf),
            RunSource::One(area, offset, _) => area.read_at(offset, buf),
            RunSource::Hole(_) | RunSource::Zeroes => {
                buf.fill(0);
                Ok(())
            }
            RunSource::Error => Err(error_segment()),
        }
    }

    fn extent(&self, ask: ExtentQuery<D>) -> Result<Extent> {
        let nothing = |kind| Extent {
            len_bytes: self.len_bytes,
            kind,
        };
        let extent = match self.source {
            RunSource::Members(members, offset) => members.extent(offset, self.len_bytes, ask)?,
            RunSource::One(area, offset, _) => ask(area, offset)?,
            RunSource::Hole(_) => nothing(ExtentKind::Unallocated),
            RunSource::Zeroes => nothing(ExtentKind::Zero),
            RunSource::Error => return Err(error_segment()),
        };
        Ok(Extent {
            len_bytes: extent.len_bytes.min(self.len_bytes),
            ..extent
        })
    }

    fn will_need(&self, len_bytes: u64) {
        match self.source {
            RunSource::Members(members, offset) => {
                if let Some((area, offset)) = members.copies(offset).next() {
                    area.will_need(offset, len_bytes);
                }
            }
            RunSource::One(area, offset, _) => area.will_need(offset, len_bytes),
            RunSource::Hole(_) | RunSource::Zeroes | RunSource::Error => {}
        }
    }
}

fn error_segment() -> Error {
    Error::new(
        ErrorKind::Io,
        "this part of the volume is of the type `error`, which cannot be read or written",
    )
}

impl<D: BlockWrite + ?Sized> Run<'_, D> {
    /// Applies a change to every copy.
    fn each(&self, mut change: impl FnMut(&Area<D>, u64) -> Result<()>) -> Result<()> {
        match self.source {
            RunSource::Members(members, offset) => members
                .copies(offset)
                .try_for_each(|(area, offset)| change(area, offset)),
            RunSource::One(area, offset, Access::Granted) => change(area, offset),
            RunSource::One(.., Access::Refused(reason))
            | RunSource::Hole(Access::Refused(reason)) => {
                Err(Error::unsupported(format!("the volume {reason}")))
            }
            RunSource::Zeroes | RunSource::Hole(Access::Granted) => Ok(()),
            RunSource::Error => Err(error_segment()),
        }
    }

    /// Applies a change to every copy that is stored; holes are zeroes already.
    fn each_stored(&self, change: impl FnMut(&Area<D>, u64) -> Result<()>) -> Result<()> {
        match self.source {
            RunSource::Hole(_) => Ok(()),
            _ => self.each(change),
        }
    }
}

/// Returns the index in a buffer at which its first `len_bytes` bytes end; it has that many.
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
        self.run_at(offset)?.extent(Area::extent_at)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes)?;
        self.run_at(offset)?.extent(Area::stored_at)
    }

    fn block_size(&self) -> u32 {
        let mut areas = self.segments.iter().flat_map(|one| one.layout.areas());
        areas.next().map_or(512, Area::block_size)
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        // This is only a hint, and ranges past the end are allowed.
        let _ = self.each_run(offset, len_bytes, |run, len_bytes| {
            run.will_need(len_bytes);
            Ok(())
        });
    }
}

impl<D: BlockWrite + ?Sized> Mapped<D> {
    /// Checks that all of a range can be written in place. It is called before the first byte is
    /// written, so that a write that is refused changes nothing.
    fn check_write(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.each_run(offset, len_bytes, |run, len_bytes| {
            run.each(|area, offset| area.check_write(offset, len_bytes))
        })
    }

    /// Checks that all of a range can be zeroed, where holes are zeroes already.
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
        // This is only a hint: parts that must not be written are skipped.
        self.each_run(offset, len_bytes, |run, len_bytes| match run.source {
            RunSource::One(.., Access::Refused(_)) | RunSource::Hole(_) => Ok(()),
            _ => run.each(|area, offset| area.discard(offset, len_bytes)),
        })
    }

    fn flush(&self) -> Result<()> {
        self.devices.iter().try_for_each(|device| device.flush())
    }
}
