//! Opening a logical volume as a device.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use super::LvmId;
use super::dm_raid_superblock::{self, RaidState, Superblock};
use super::logical_volume::{LogicalVolume, Problem};
use super::mirror_log;
use super::pv_entry::PvEntry;
use super::segment::{AreaRef, Cache, Image, Mirror, Segment, SegmentKind, Thin};
use super::volume_group::VolumeGroup;
use crate::cache;
use crate::cow;
use crate::map::{
    Area, Geometry, Layout, Mapped, Mark, Members, Remapped, Source, Table, Writable,
};
use crate::persistent::Blocks;
use crate::thin;

/// The largest nesting depth of volumes. LVM's own deepest stack (a thin pool on a cache on RAID)
/// has five.
const MAX_DEPTH: usize = 8;

impl VolumeGroup {
    /// Opens a logical volume as a device. `find` returns the device of a physical volume, or
    /// `None` if it is missing; it is called only for those that are needed.
    ///
    /// # Errors
    /// * [`ErrorKind::Unsupported`] and [`ErrorKind::Corrupt`] according to its
    ///   [`problem`](LogicalVolume::problem).
    /// * [`ErrorKind::NotFound`] if a physical volume is missing.
    /// * [`ErrorKind::OutOfBounds`] if one was truncated.
    /// * Errors of `find`.
    pub fn open<D: BlockRead + ?Sized>(
        &self,
        volume: &LogicalVolume,
        find: &dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
    ) -> Result<Mapped<D>> {
        let (opened, _) = self.build(volume, find, Purpose::Read)?;
        Ok(opened)
    }

    fn build<D: BlockRead + ?Sized>(
        &self,
        volume: &LogicalVolume,
        find: &dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
        purpose: Purpose,
    ) -> Result<(Mapped<D>, Vec<Mark<D>>)> {
        let mut builder = Builder {
            group: self,
            find,
            purpose,
            devices: HashMap::new(),
            volumes: HashMap::new(),
            in_raid: false,
            marks: Vec::new(),
        };
        let opened = match &volume.origin {
            Some(origin) => builder.snapshot(volume, origin),
            None => builder.volume(volume, 0),
        };
        let opened = opened.map_err(|e| in_volume(&self.name, &volume.name, &e))?;
        Ok((opened, builder.marks))
    }

    /// Opens a logical volume for reading and writing.
    ///
    /// # Errors
    /// * As for [`open`](Self::open).
    /// * [`ErrorKind::ReadOnly`] for a volume that LVM marks as read-only.
    /// * [`ErrorKind::Unsupported`] for a volume with snapshots, whose stores would need the data
    ///   that is overwritten.
    pub fn open_writable<D: BlockWrite + ?Sized>(
        &self,
        volume: &LogicalVolume,
        find: &dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
    ) -> Result<Writable<D>> {
        let refused = if volume.origin.is_some() {
            Some((
                ErrorKind::Unsupported,
                "is a snapshot; writing to it is not supported",
            ))
        } else if volume.has_snapshots {
            Some((
                ErrorKind::Unsupported,
                "has snapshots; writing to it is not supported",
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
        let (opened, marks) = self.build(volume, find, Purpose::Write)?;
        Writable::new(opened, marks).map_err(|e| in_volume(&self.name, &volume.name, &e))
    }

    /// Returns the missing physical volumes that a logical volume needs. A RAID can do without some
    /// of its members.
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

/// A search for missing physical volumes.
struct Missing<'a> {
    group: &'a VolumeGroup,
    is_there: &'a dyn Fn(&LvmId) -> bool,
    /// The results by the name of the logical volume.
    known: HashMap<&'a str, BTreeSet<usize>>,
}

impl<'a> Missing<'a> {
    fn of(&mut self, volume: &'a LogicalVolume, depth: usize) -> BTreeSet<usize> {
        if let Some(known) = self.known.get(volume.name.as_str()) {
            return known.clone();
        }
        let mut missing = BTreeSet::new();
        // A volume that needs itself is looked up again before it is complete.
        self.known.insert(&volume.name, BTreeSet::new());
        if depth < MAX_DEPTH {
            if let Some(origin) = &volume.origin {
                missing.extend(self.below(origin, depth));
            }
            for segment in &volume.segments {
                let areas = segment.areas().map(|(area, _)| area.name.as_str());
                let areas = match &segment.kind {
                    // A mirror is read from its first leg.
                    SegmentKind::Mirror(_) => areas.take(1),
                    _ => areas.take(usize::MAX),
                };
                for name in areas.chain(segment.needs()) {
                    missing.extend(self.below(name, depth));
                }
                if let SegmentKind::Raid { geometry, images } = &segment.kind {
                    let of_images = images.iter();
                    let of_images: Vec<_> = of_images
                        .map(|image| self.below(&image.data, depth))
                        .filter(|missing| !missing.is_empty())
                        .collect();
                    // The group's metadata does not tell whether parity is in sync; opening checks
                    // that.
                    if of_images.len() > geometry.spare(images.len(), true) {
                        missing.extend(of_images.into_iter().flatten());
                    }
                }
            }
        }
        self.known.insert(&volume.name, missing.clone());
        missing
    }

    /// Returns the missing physical volumes below the named area.
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

/// Adds the name of the volume to an error.
fn in_volume(group: &str, volume: &str, error: &Error) -> Error {
    let reason = format!("logical volume {group}/{volume} {}", error.reason());
    let mut named = Error::new(error.kind(), reason);
    if let Some(offset) = error.offset() {
        named = named.at(offset);
    }
    if let Some(hint) = error.next_step() {
        named = named.with_hint(hint.to_owned());
    }
    named
}

/// The purpose for which a volume is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Purpose {
    Read,
    Write,
}

struct Builder<'a, D: ?Sized> {
    group: &'a VolumeGroup,
    find: &'a dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>,
    purpose: Purpose,
    devices: HashMap<usize, Arc<D>>,
    /// The built volumes by name and purpose: each is built once, however many others need it.
    volumes: HashMap<(String, Purpose), Arc<Mapped<D>>>,
    /// True while an image of a RAID is being built.
    in_raid: bool,
    /// The superblocks to mark before and after writes.
    marks: Vec<Mark<D>>,
}

impl<'a, D: BlockRead + ?Sized> Builder<'a, D> {
    fn volume(&mut self, volume: &LogicalVolume, depth: usize) -> Result<Mapped<D>> {
        if depth >= MAX_DEPTH {
            let reason = format!("is nested too deeply: more than {MAX_DEPTH} levels of volumes");
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
            SegmentKind::Linear(_) => Geometry::Mirror,
            SegmentKind::Stripes { chunk_bytes, .. } => Geometry::Stripes {
                chunk_bytes: *chunk_bytes,
            },
            SegmentKind::Zeroes => return Ok(Layout::Zeroes),
            SegmentKind::Error => return Ok(Layout::Error),
            SegmentKind::Unsupported(reason) => return Err(Error::unsupported(reason.clone())),
            SegmentKind::Raid { geometry, images } => {
                return self.raid(segment, *geometry, images, depth);
            }
            SegmentKind::Mirror(mirror) => return self.mirror(segment, mirror, depth),
            SegmentKind::Thin(thin) => return self.thin(thin, depth),
            SegmentKind::Cache(cache) => return self.cache(cache, depth),
            SegmentKind::ThinPool(_) | SegmentKind::CachePool(_) => {
                return Err(Error::unsupported("is a pool"));
            }
        };
        let areas = segment
            .areas()
            .map(|(area, extents)| self.area(area, extents, depth).map(Some));
        let members = Members::new(geometry, areas.collect::<Result<_>>()?);
        let members = members.ok_or_else(|| Error::corrupt("has a segment with missing areas"))?;
        Ok(Layout::Members(members))
    }

    /// Opens a volume for reading only, whatever the purpose of the top one.
    fn only_read(&mut self, name: &str, depth: usize) -> Result<Area<D>> {
        let purpose = std::mem::replace(&mut self.purpose, Purpose::Read);
        let area = self.whole(name, depth);
        self.purpose = purpose;
        area
    }

    /// Opens all of another logical volume.
    fn whole(&mut self, name: &str, depth: usize) -> Result<Area<D>> {
        let volume = self.inner(name, depth)?;
        let len_bytes = volume.size_bytes();
        Area::new(Source::Volume(volume), 0, len_bytes)
    }

    /// Opens a snapshot of the old style, whose segments are its store.
    fn snapshot(&mut self, volume: &LogicalVolume, origin: &str) -> Result<Mapped<D>> {
        let store = Arc::new(self.volume(volume, 0)?);
        let store_bytes = store.size_bytes();
        let store = Area::new(Source::Volume(store), 0, store_bytes)?;
        let table = Table::Moved(cow::read(&store)?);
        let origin = self.whole(origin, 0)?;
        if origin.len_bytes() < volume.size_bytes {
            return Err(Error::corrupt(
                "is a snapshot that is larger than its origin",
            ));
        }
        let layout = Layout::Remapped(Remapped::new(table, vec![origin, store]));
        Mapped::new(vec![(volume.size_bytes, layout)])
    }

    fn thin(&mut self, thin: &Thin, depth: usize) -> Result<Layout<D>> {
        let Some(SegmentKind::ThinPool(pool)) = self.only_segment(&thin.pool) else {
            return Err(no_pool(&thin.pool));
        };
        let depth = depth.saturating_add(1);
        let blocks = Blocks::new(self.only_read(&pool.metadata, depth)?);
        let superblock = thin::Superblock::read(&blocks)?;
        if superblock.needs_check && self.purpose == Purpose::Write {
            let reason = "is in a thin pool whose metadata must be checked before writing";
            return Err(Error::unsupported(reason).with_hint("run thin_check and thin_repair"));
        }
        let data = self.whole(&pool.data, depth)?;
        let data_bytes = data.len_bytes();
        let origin = thin.external_origin.as_ref();
        let origin = origin.map(|name| self.only_read(name, depth)).transpose()?;
        let origin_bytes = origin.as_ref().map_or(0, Area::len_bytes);
        let map = thin::Thin::open(
            blocks,
            &superblock,
            thin.device_id,
            data_bytes,
            origin_bytes,
        )?;
        let areas = std::iter::once(data).chain(origin).collect();
        Ok(Layout::Remapped(Remapped::new(Table::Thin(map), areas)))
    }

    fn cache(&mut self, cache: &Cache, depth: usize) -> Result<Layout<D>> {
        if self.purpose == Purpose::Write {
            return Err(Error::unsupported(
                "has a cache; writing to it is not supported",
            ));
        }
        let origin = self.whole(&cache.origin, depth)?;
        if cache.passes {
            let all = Members::new(Geometry::Mirror, vec![Some(origin)]);
            return all.map(Layout::Members).ok_or_else(|| no_pool(&cache.pool));
        }
        let (metadata, data) = match (&cache.inside, self.only_segment(&cache.pool)) {
            (Some(inside), _) => {
                let volume = self.inner(&cache.pool, depth)?;
                let part =
                    |(start, len)| Area::new(Source::Volume(Arc::clone(&volume)), start, len);
                (part(inside.metadata)?, part(inside.data)?)
            }
            (None, Some(SegmentKind::CachePool(pool))) => {
                let depth = depth.saturating_add(1);
                (
                    self.whole(&pool.metadata, depth)?,
                    self.whole(&pool.data, depth)?,
                )
            }
            (None, _) => return Err(no_pool(&cache.pool)),
        };
        let moved = cache::dirty(&Blocks::new(metadata), data.len_bytes())?;
        let table = Table::Moved(moved);
        Ok(Layout::Remapped(Remapped::new(table, vec![origin, data])))
    }

    /// Returns the only segment of another logical volume.
    fn only_segment(&self, name: &str) -> Option<&'a SegmentKind> {
        match self.group.logical_volume(name)?.segments.as_slice() {
            [only] => Some(&only.kind),
            _ => None,
        }
    }

    fn raid(
        &mut self,
        segment: &Segment,
        geometry: Geometry,
        images: &[Image],
        depth: usize,
    ) -> Result<Layout<D>> {
        let has_copies = matches!(geometry, Geometry::Mirror | Geometry::Raid10 { .. });
        if self.purpose == Purpose::Write && !has_copies {
            let type_name = &segment.type_name;
            let reason = format!("is of type `{type_name}`; writing to it is not supported");
            return Err(Error::unsupported(reason));
        }
        self.enter_raid()?;
        let state = RaidState::of(&self.superblocks(images, depth)?);
        if state.reshaping {
            return Err(Error::unsupported("is being reshaped"));
        }
        if self.purpose == Purpose::Write {
            self.mark(images, &state, depth)?;
        }
        let mut areas = Vec::new();
        let mut lost: Vec<Error> = Vec::new();
        for (image, current) in images.iter().zip(state.current) {
            let opened = if current {
                self.whole(&image.data, depth)
            } else {
                let name = &image.data;
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
        let members = members.ok_or_else(|| Error::corrupt("has a RAID with missing images"))?;
        Ok(Layout::Members(members))
    }

    /// Refuses a RAID in a RAID. Each level rebuilds from all members of the level below, or writes
    /// to all of them, so nesting would multiply the cost without bounds.
    fn enter_raid(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.in_raid, true) {
            return Err(Error::unsupported("has a RAID within a RAID"));
        }
        Ok(())
    }

    /// Opens a mirror of the old style: it is read from its first leg, and written to all.
    fn mirror(&mut self, segment: &Segment, mirror: &Mirror, depth: usize) -> Result<Layout<D>> {
        let legs = match self.purpose {
            Purpose::Read => 1,
            Purpose::Write => mirror.legs.len(),
        };
        self.enter_raid()?;
        let legs = mirror.legs.iter().take(legs);
        let legs = legs.map(|leg| self.area(leg, segment.extent_count, depth).map(Some));
        let legs = legs.collect::<Result<_>>()?;
        self.in_raid = false;
        if let (Purpose::Write, Some(log)) = (self.purpose, &mirror.log) {
            let regions = self
                .bytes(segment.extent_count)?
                .div_ceil(log.region_bytes.get());
            let volume = self.inner(&log.name, depth)?;
            let len_bytes = mirror_log::len_bytes(regions)?;
            let area = Area::new(Source::Volume(volume.clone()), 0, len_bytes)?;
            mirror_log::check(&*volume, regions)?;
            self.marks.push(Mark {
                superblock: area,
                bitmap: None,
                change: mirror_log::CHANGE,
            });
        }
        let members = Members::new(Geometry::Mirror, legs);
        let members = members.ok_or_else(|| Error::corrupt("has a mirror with missing legs"))?;
        Ok(Layout::Members(members))
    }

    /// Reads the superblocks in the metadata images. An unreadable one counts as missing.
    fn superblocks(&mut self, images: &[Image], depth: usize) -> Result<Vec<Option<Superblock>>> {
        let superblocks = images
            .iter()
            .map(|image| match self.inner(&image.metadata, depth) {
                Ok(metadata) => Ok(Superblock::read(&*metadata).unwrap_or(None)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            });
        superblocks.collect()
    }

    /// Records the superblocks of a RAID to mark when it is written; fails unless the RAID is
    /// whole.
    fn mark(&mut self, images: &[Image], state: &RaidState, depth: usize) -> Result<()> {
        if !state.is_whole() {
            let reason = "is a RAID whose copies are not all present and in sync; writing to it \
                 is not supported";
            return Err(
                Error::unsupported(reason).with_hint("let the guest's kernel repair it first")
            );
        }
        for image in images {
            let volume = self.inner(&image.metadata, depth)?;
            let part = |start, len| Area::new(Source::Volume(Arc::clone(&volume)), start, len);
            self.marks.push(Mark {
                superblock: part(0, dm_raid_superblock::BYTES)?,
                bitmap: Some(part(
                    dm_raid_superblock::BITMAP_AT,
                    dm_raid_superblock::BYTES,
                )?),
                change: dm_raid_superblock::CHANGE,
            });
        }
        Ok(())
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
                    .with_hint("the image was truncated, or is not the whole disk")
            });
        }
        let volume = self.inner(&area.name, depth)?;
        Area::new(Source::Volume(volume), start, len_bytes)
    }

    fn inner(&mut self, name: &str, depth: usize) -> Result<Arc<Mapped<D>>> {
        let key = (name.to_owned(), self.purpose);
        if let Some(built) = self.volumes.get(&key) {
            return Ok(Arc::clone(built));
        }
        let inner = self.group.logical_volume(name).ok_or_else(|| {
            let name = name.escape_debug();
            Error::corrupt(format!("needs `{name}`, which is not in its group"))
        })?;
        if inner.origin.is_some() {
            let reason = format!("needs {name}, which is a snapshot");
            return Err(Error::unsupported(reason));
        }
        let built = Arc::new(self.volume(inner, depth.saturating_add(1))?);
        self.volumes.insert(key, Arc::clone(&built));
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
            .ok_or_else(|| Error::corrupt("is too large: longer than any device"))
    }
}

fn no_pool(name: &str) -> Error {
    let name = name.escape_debug();
    Error::corrupt(format!("needs `{name}`, which is not a pool"))
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
