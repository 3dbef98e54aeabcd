//! Making a device of a logical volume.

use std::collections::HashMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use super::LvmId;
use super::logical_volume::{LogicalVolume, Problem};
use super::pv_entry::PvEntry;
use super::segment::{AreaRef, Kind, Segment};
use super::volume_group::VolumeGroup;
use crate::map::{Area, Geometry, Layout, Mapped, Members, Source};

/// Volumes in one another. LVM's own deepest (a thin pool on a cache on RAID) has five.
const MAX_DEPTH: usize = 8;

impl VolumeGroup {
    /// Makes a device of one of its logical volumes. `find` gives the device of a physical volume,
    /// or `None` when it isn't there; it is asked for those that are needed.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] and [`ErrorKind::Corrupt`] as its
    /// [`problem`](LogicalVolume::problem) says; [`ErrorKind::NotFound`] when a physical volume is
    /// missing; [`ErrorKind::OutOfBounds`] when one has been cut; what `find` answers.
    pub fn open<D: BlockRead + ?Sized>(
        &self,
        volume: &LogicalVolume,
        find: &dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
    ) -> Result<Mapped<D>> {
        let mut builder = Builder {
            group: self,
            find,
            devices: HashMap::new(),
            volumes: HashMap::new(),
        };
        builder
            .volume(volume, 0)
            .map_err(|e| in_volume(&self.name, &volume.name, &e))
    }

    /// As [`open`](Self::open), to be written, too.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::ReadOnly`] for a volume that LVM keeps from being
    /// written; [`ErrorKind::Unsupported`] for one that has snapshots, which need to be told of what
    /// is overwritten.
    pub fn open_writable<D: BlockWrite + ?Sized>(
        &self,
        volume: &LogicalVolume,
        find: &dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
    ) -> Result<Mapped<D>> {
        let refused = if volume.has_snapshots {
            Some((
                ErrorKind::Unsupported,
                "has snapshots, so it is not written",
            ))
        } else if !volume.writable {
            Some((ErrorKind::ReadOnly, "is marked as read-only in its group"))
        } else {
            None
        };
        if let Some((kind, reason)) = refused {
            let error = Error::new(kind, reason);
            return Err(in_volume(&self.name, &volume.name, &error));
        }
        self.open(volume, find)
    }

    /// The physical volumes that a logical volume needs and that are not there.
    pub fn missing_for(
        &self,
        volume: &LogicalVolume,
        is_there: &dyn Fn(&LvmId) -> bool,
    ) -> Vec<&PvEntry> {
        let mut seen = vec![false; self.logical_volumes.len()];
        let mut needed = vec![false; self.physical_volumes.len()];
        let mut ahead: Vec<&LogicalVolume> = vec![volume];
        while let Some(volume) = ahead.pop() {
            for (area, _) in volume.segments.iter().flat_map(Segment::areas) {
                if let Some(&pv) = self.pv_by_key.get(&area.name) {
                    needed.get_mut(pv).into_iter().for_each(|n| *n = true);
                } else if let Some(&lv) = self.lv_by_name.get(&area.name)
                    && let Some(seen @ false) = seen.get_mut(lv)
                {
                    *seen = true;
                    ahead.extend(self.logical_volumes.get(lv));
                }
            }
        }
        let needed = self.physical_volumes.iter().zip(needed);
        needed
            .filter(|(pv, needed)| *needed && (pv.was_missing || !is_there(&pv.id)))
            .map(|(pv, _)| pv)
            .collect()
    }
}

/// Says which volume it is that has something wrong.
fn in_volume(group: &str, volume: &str, error: &Error) -> Error {
    let reason = format!("logical volume {group}/{volume} {}", error.reason());
    let mut named = Error::new(error.kind(), reason);
    if let Some(offset) = error.offset() {
        named = named.at(offset);
    }
    if let Some(hint) = error.next_step() {
        named = named.hint(hint.to_owned());
    }
    named
}

struct Builder<'a, D: ?Sized> {
    group: &'a VolumeGroup,
    find: &'a dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
    devices: HashMap<usize, Arc<D>>,
    /// What has been built, by name: each once, however many need it.
    volumes: HashMap<String, Arc<Mapped<D>>>,
}

impl<D: BlockRead + ?Sized> Builder<'_, D> {
    fn volume(&mut self, volume: &LogicalVolume, depth: usize) -> Result<Mapped<D>> {
        if depth >= MAX_DEPTH {
            let reason = format!("has more than {MAX_DEPTH} volumes in one another");
            return Err(Error::corrupt(reason));
        }
        match &volume.problem {
            Some(Problem::Unsupported(reason)) => return Err(Error::unsupported(reason.clone())),
            Some(Problem::Corrupt(reason)) => return Err(Error::corrupt(reason.clone())),
            None => {}
        }
        let layouts = volume.segments.iter().map(|segment| {
            let len_bytes = self.bytes(segment.extent_count)?;
            Ok((len_bytes, self.layout(segment, depth)?))
        });
        Mapped::new(layouts.collect::<Result<_>>()?)
    }

    fn layout(&mut self, segment: &Segment, depth: usize) -> Result<Layout<D>> {
        let geometry = match &segment.kind {
            Kind::Linear(_) => Geometry::Mirror,
            Kind::Stripes { chunk_bytes, .. } => Geometry::Stripes {
                chunk_bytes: *chunk_bytes,
            },
            Kind::Zeroes => return Ok(Layout::Zeroes),
            Kind::Error => return Ok(Layout::Error),
            Kind::Unsupported => return Err(Error::unsupported("is not read")),
        };
        let areas = segment
            .areas()
            .map(|(area, extents)| self.area(area, extents, depth));
        let members = Members::new(geometry, areas.collect::<Result<_>>()?);
        let members = members.ok_or_else(|| Error::corrupt("has a segment without areas"))?;
        Ok(Layout::Members(members))
    }

    fn area(&mut self, area: &AreaRef, extents: u64, depth: usize) -> Result<Area<D>> {
        let (start, len_bytes) = (self.bytes(area.extent)?, self.bytes(extents)?);
        if let Some(&index) = self.group.pv_by_key.get(&area.name)
            && let Some(entry) = self.group.physical_volumes.get(index)
        {
            let start = entry.start_bytes.saturating_add(start);
            let device = self.device(index, entry)?;
            let size_bytes = device.size_bytes();
            return Area::new(Source::Device(device), start, len_bytes).map_err(|_| {
                let reason = format!(
                    "needs more of physical volume {} than its {size_bytes} bytes",
                    entry.id
                );
                Error::new(ErrorKind::OutOfBounds, reason)
                    .at(start)
                    .hint("the image was cut, or is not the whole disk")
            });
        }
        let volume = self.inner(&area.name, depth)?;
        Area::new(Source::Volume(volume), start, len_bytes)
    }

    fn inner(&mut self, name: &str, depth: usize) -> Result<Arc<Mapped<D>>> {
        if let Some(built) = self.volumes.get(name) {
            return Ok(Arc::clone(built));
        }
        let inner = self.group.logical_volume(name).ok_or_else(|| {
            let name = name.escape_debug();
            Error::corrupt(format!("needs `{name}`, which its group has not"))
        })?;
        let built = Arc::new(self.volume(inner, depth.saturating_add(1))?);
        self.volumes.insert(name.to_owned(), Arc::clone(&built));
        Ok(built)
    }

    fn device(&mut self, index: usize, entry: &PvEntry) -> Result<Arc<D>> {
        if let Some(device) = self.devices.get(&index) {
            return Ok(Arc::clone(device));
        }
        let found = if entry.was_missing {
            None
        } else {
            (self.find)(entry)?
        };
        let device = found.ok_or_else(|| missing(entry))?;
        self.devices.insert(index, Arc::clone(&device));
        Ok(device)
    }

    fn bytes(&self, extents: u64) -> Result<u64> {
        extents
            .checked_mul(self.group.extent_bytes)
            .ok_or_else(|| Error::corrupt("is longer than any device"))
    }
}

fn missing(entry: &PvEntry) -> Error {
    let hint = entry.device_hint.as_deref().map(str::escape_debug);
    let seen = hint.map_or_else(String::new, |hint| format!(", last seen as {hint}"));
    let why = if entry.was_missing {
        "which was missing when the group was last changed"
    } else {
        "which is on none of the disks given"
    };
    let reason = format!("needs physical volume {}{seen}, {why}", entry.id);
    Error::new(ErrorKind::NotFound, reason)
}
