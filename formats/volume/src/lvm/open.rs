//! Making a device of a logical volume.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use super::LvmId;
use super::dm_raid_superblock::{State, Superblock};
use super::logical_volume::{LogicalVolume, Problem};
use super::pv_entry::PvEntry;
use super::segment::{AreaRef, Image, Kind, Segment};
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
        self.build(volume, find, Purpose::Read)
    }

    fn build<D: BlockRead + ?Sized>(
        &self,
        volume: &LogicalVolume,
        find: &dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
        purpose: Purpose,
    ) -> Result<Mapped<D>> {
        let mut builder = Builder {
            group: self,
            find,
            purpose,
            devices: HashMap::new(),
            volumes: HashMap::new(),
            in_raid: false,
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
        self.build(volume, find, Purpose::Write)
    }

    /// The physical volumes that a logical volume needs and that are not there. A RAID does without
    /// as many of its members as it is made for.
    pub fn missing_for(
        &self,
        volume: &LogicalVolume,
        is_there: &dyn Fn(&LvmId) -> bool,
    ) -> Vec<&PvEntry> {
        let mut missing = Missing {
            group: self,
            is_there,
            known: HashMap::new(),
        };
        let found = missing.of(volume, 0);
        let entries = self.physical_volumes.iter().enumerate();
        entries
            .filter(|(index, _)| found.contains(index))
            .map(|(_, entry)| entry)
            .collect()
    }
}

/// Looks for physical volumes that are not there.
struct Missing<'a> {
    group: &'a VolumeGroup,
    is_there: &'a dyn Fn(&LvmId) -> bool,
    /// By the name of a logical volume.
    known: HashMap<&'a str, BTreeSet<usize>>,
}

impl<'a> Missing<'a> {
    fn of(&mut self, volume: &'a LogicalVolume, depth: usize) -> BTreeSet<usize> {
        if let Some(known) = self.known.get(volume.name.as_str()) {
            return known.clone();
        }
        let mut missing = BTreeSet::new();
        // One that needs itself is met again before it is known.
        self.known.insert(&volume.name, BTreeSet::new());
        if depth < MAX_DEPTH {
            for segment in &volume.segments {
                for (area, _) in segment.areas() {
                    missing.extend(self.below(&area.name, depth));
                }
                if let Kind::Raid { geometry, images } = &segment.kind {
                    let of_images = images.iter();
                    let of_images: Vec<_> = of_images
                        .map(|image| self.below(&image.data.name, depth))
                        .filter(|missing| !missing.is_empty())
                        .collect();
                    // Whether sums are in sync is not in the group's metadata: opening tells.
                    if of_images.len() > geometry.spare(images.len(), true) {
                        missing.extend(of_images.into_iter().flatten());
                    }
                }
            }
        }
        self.known.insert(&volume.name, missing.clone());
        missing
    }

    /// Of what an area names.
    fn below(&mut self, name: &str, depth: usize) -> BTreeSet<usize> {
        if let Some(&index) = self.group.pv_by_key.get(name) {
            let entry = self.group.physical_volumes.get(index);
            let gone = entry.is_some_and(|pv| pv.was_missing || !(self.is_there)(&pv.id));
            return gone.then_some(index).into_iter().collect();
        }
        match self.group.logical_volume(name) {
            Some(inner) => self.of(inner, depth.saturating_add(1)),
            None => BTreeSet::new(),
        }
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

/// What a volume is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Write,
}

struct Builder<'a, D: ?Sized> {
    group: &'a VolumeGroup,
    find: &'a dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
    purpose: Purpose,
    devices: HashMap<usize, Arc<D>>,
    /// What has been built, by name: each once, however many need it.
    volumes: HashMap<String, Arc<Mapped<D>>>,
    /// What is being built is an image of a RAID.
    in_raid: bool,
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
            Kind::Unsupported(reason) => return Err(Error::unsupported(reason.clone())),
            Kind::Raid { geometry, images } => {
                return self.raid(segment, *geometry, images, depth);
            }
        };
        let areas = segment
            .areas()
            .map(|(area, extents)| self.area(area, extents, depth).map(Some));
        let members = Members::new(geometry, areas.collect::<Result<_>>()?);
        let members = members.ok_or_else(|| Error::corrupt("has a segment without areas"))?;
        Ok(Layout::Members(members))
    }

    fn raid(
        &mut self,
        segment: &Segment,
        geometry: Geometry,
        images: &[Image],
        depth: usize,
    ) -> Result<Layout<D>> {
        let type_name = &segment.type_name;
        if self.purpose == Purpose::Write {
            let reason = format!("is of the type `{type_name}`, which is not written");
            return Err(Error::unsupported(reason));
        }
        // Each rebuilds the one below from all of its members: that would grow without bounds.
        if std::mem::replace(&mut self.in_raid, true) {
            return Err(Error::unsupported("has a RAID within a RAID"));
        }
        let state = self.state(images, depth)?;
        if state.reshaping {
            return Err(Error::unsupported("is being reshaped"));
        }
        let mut areas = Vec::new();
        let mut lost: Vec<Error> = Vec::new();
        for (image, current) in images.iter().zip(state.current) {
            let opened = if current {
                self.image(image, segment, depth)
            } else {
                let name = &image.data.name;
                Err(Error::new(
                    ErrorKind::NotFound,
                    format!("needs {name}, which is out of date"),
                ))
            };
            match opened {
                Ok(area) => areas.push(Some(area)),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    areas.push(None);
                    lost.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        self.in_raid = false;
        if lost.len() > geometry.spare(images.len(), state.in_sync) {
            return Err(lost.swap_remove(0));
        }
        let members = Members::new(geometry, areas);
        let members = members.ok_or_else(|| Error::corrupt("has a RAID without images"))?;
        Ok(Layout::Members(members))
    }

    /// What the metadata images say. One that can't be had says that its image is not current.
    fn state(&mut self, images: &[Image], depth: usize) -> Result<State> {
        let mut superblocks = Vec::new();
        for image in images {
            let Some(name) = &image.metadata else {
                return Ok(State::without_metadata(images.len()));
            };
            superblocks.push(match self.inner(name, depth) {
                Ok(metadata) => Superblock::read(&*metadata).unwrap_or(None),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            });
        }
        Ok(State::of(&superblocks))
    }

    /// The data of an image: a whole logical volume, or extents of something for a mirror's leg.
    fn image(&mut self, image: &Image, segment: &Segment, depth: usize) -> Result<Area<D>> {
        if image.metadata.is_none() {
            return self.area(&image.data, segment.extent_count, depth);
        }
        let volume = self.inner(&image.data.name, depth)?;
        let len_bytes = volume.size_bytes();
        Area::new(Source::Volume(volume), 0, len_bytes)
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
