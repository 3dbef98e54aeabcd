//! Entries put into directories and taken out of them.
//!
//! A name that lies within one sector is written, or lost, as a whole. Of one that does not, what is in
//! the sector of its head makes it a file: where a torn name misleads anybody, that is written after the
//! rest, and taken away before.

use std::sync::Arc;

use diskfs_vfs::{ErrorKind, InodeNumber, Result};

use crate::chain::Cluster;
use crate::directory::{Directory, Name, Room};
use crate::format::{FileRecord, Format};
use crate::geometry::Root;
use crate::name::NewName;
use crate::numbers::ROOT;
use crate::place::{ENTRY_LEN, Place, RawEntry};
use crate::{device_failed, low32};

use super::Writer;

impl<F: Format> Writer<F> {
    fn room_for(&self, count: u32) -> Room {
        Room {
            count,
            head: F::HEAD_ENTRIES,
            per_sector: self.volume.geometry().sector_bytes / 32,
        }
    }

    /// Finds room for so many entries, or makes some.
    pub(super) fn find_slots(&mut self, dir: InodeNumber, count: u32) -> Result<u32> {
        let room = self.room_for(count);
        loop {
            let find = |directory: &mut Directory| directory.find_free(room);
            if let Some(first) = self.volume.change_directory(dir, find)? {
                return Ok(first);
            }
            self.grow_directory(dir)?;
        }
    }

    /// Finds room in the sector in which the name in `slot` is, and which may be that name's own.
    pub(super) fn find_slots_beside(
        &self,
        dir: InodeNumber,
        slot: u32,
        count: u32,
    ) -> Result<Option<u32>> {
        let directory = self.volume.directory(dir)?;
        Ok(directory.find_free_beside(slot, self.room_for(count)))
    }

    /// Adds a cluster to a directory. It is zeroes on the device before anything leads there.
    fn grow_directory(&mut self, dir: InodeNumber) -> Result<()> {
        let geometry = *self.volume.geometry();
        let span = self.volume.directory_span(dir)?;
        let cluster_bytes = u64::from(geometry.cluster_bytes);
        let new_len_bytes = span.len_bytes.saturating_add(cluster_bytes);
        let is_whole = span.len_bytes == geometry.bytes_of(span.chain.clusters());
        if new_len_bytes > F::MAX_DIRECTORY_BYTES || !is_whole {
            return Err(ErrorKind::NoSpace.into());
        }
        let all = match (dir, geometry.root) {
            (ROOT, Root::Fixed { .. }) => return Err(ErrorKind::NoSpace.into()),
            (ROOT, Root::Chain { first }) => {
                let added = self.take(1, span.chain.last())?;
                self.link(&span.chain, &added)?;
                let mut all = (*span.chain).clone();
                all.append(&added);
                let all = Arc::new(all);
                self.volume.keep_chain(first, Arc::clone(&all));
                all
            }
            _ => {
                let mut record = self.volume.record(dir)?;
                let all = self.add_clusters(&mut record, &span.chain, 1)?;
                record.set_size(new_len_bytes, new_len_bytes);
                self.put_record(dir, &record)?;
                all
            }
        };
        let added = all.last().ok_or(ErrorKind::NoSpace)?;
        self.clear_cluster(added, &[])?;
        self.volume.format.note_directory(&all);
        let offset = geometry.offset_of(added);
        self.volume
            .change_directory(dir, |directory| directory.add_room(offset, cluster_bytes))
    }

    /// Fills a cluster of a directory with these entries and zeroes.
    pub(super) fn clear_cluster(&mut self, cluster: Cluster, entries: &[RawEntry]) -> Result<()> {
        let offset = self.volume.geometry().offset_of(cluster);
        let len_bytes = u64::from(self.volume.geometry().cluster_bytes);
        self.device
            .write_zeroes(offset, len_bytes)
            .map_err(device_failed)?;
        let entries = entries.as_flattened();
        if !entries.is_empty() {
            self.device
                .write_at(offset, entries)
                .map_err(device_failed)?;
        }
        self.unflushed = true;
        Ok(())
    }

    /// Puts a file into the slots from `first` on, and returns the place of its head.
    pub(super) fn put_entries(
        &mut self,
        dir: InodeNumber,
        first: u32,
        record: &F::Record,
        new_name: &NewName,
    ) -> Result<Place> {
        let directory = self.volume.directory(dir)?;
        let entries = record.entries();
        let slots = first..first.saturating_add(low32(entries.len()));
        let head = F::head(&slots);
        let place = directory.place(head);
        let alias = self.volume.format.alias(record);
        let name = Name {
            shown: new_name.text.as_bytes().to_vec(),
            alias: alias.filter(|alias| *alias != new_name.key),
            key: new_name.key.clone(),
            slots: slots.clone(),
            is_directory: record.is_directory(),
            place,
        };
        self.await_removal(dir, &name)?;
        let entries: Vec<(Place, RawEntry)> = slots
            .clone()
            .zip(entries)
            .map(|(slot, entry)| (directory.place(slot), entry))
            .collect();
        let never_used = F::unused([0; ENTRY_LEN]);
        // Zeroes before them would end the directory.
        for slot in directory.end()..first {
            self.volume
                .sectors
                .put(directory.place(slot), &never_used)?;
        }
        if slots.end > directory.end() && slots.end < directory.slots() {
            self.end_directory(directory.place(slots.end))?;
        }
        let is_whole = entries.iter().all(|(at, _)| self.is_head(place, *at));
        if !is_whole {
            for (at, entry) in &entries {
                let entry = if self.is_head(place, *at) {
                    never_used
                } else {
                    *entry
                };
                self.volume.sectors.put(*at, &entry)?;
            }
            self.commit_durably()?;
        }
        for (at, entry) in &entries {
            self.volume.sectors.put(*at, entry)?;
        }
        drop(directory);
        self.volume
            .change_directory(dir, |directory| directory.put(head, name))?;
        Ok(place)
    }

    /// Returns true if an entry may be written together with the head of its name.
    fn is_head(&self, head: Place, entry: Place) -> bool {
        F::TORN_NAMES_ARE_HARMLESS || self.volume.sectors.are_one(head, entry)
    }

    /// Makes the removal of a file that had this name durable, unless one write puts the new one in
    /// its place.
    fn await_removal(&mut self, dir: InodeNumber, name: &Name) -> Result<()> {
        let is_elsewhere = name.keys().any(|key| {
            let before = self.removed.get(&(dir, key.clone()));
            before.is_some_and(|before| !self.volume.sectors.are_one(*before, name.place))
        });
        if is_elsewhere {
            self.commit_durably()?;
        }
        Ok(())
    }

    /// Ends the directory at `place`, where another writer may have left something.
    fn end_directory(&mut self, place: Place) -> Result<()> {
        let [kind, ..] = self.volume.sectors.entry(place)?;
        if kind != 0 {
            self.volume.sectors.put(place, &[0; ENTRY_LEN])?;
        }
        Ok(())
    }

    /// Takes a name out of a directory.
    pub(super) fn remove_entries(&mut self, dir: InodeNumber, slot: u32) -> Result<()> {
        let directory = self.volume.directory(dir)?;
        let name = directory.name(slot).ok_or(ErrorKind::NotFound)?;
        let places = name.slots.clone().map(|slot| directory.place(slot));
        let (head, tail): (Vec<_>, Vec<_>) = places.partition(|at| self.is_head(name.place, *at));
        drop(directory);
        self.unuse(&head)?;
        if !tail.is_empty() {
            self.commit_durably()?;
            self.unuse(&tail)?;
        }
        let removed = self
            .volume
            .change_directory(dir, |directory| directory.remove(slot))?;
        if let Some(name) = removed {
            for key in name.keys() {
                self.removed.insert((dir, key.clone()), name.place);
            }
        }
        Ok(())
    }

    fn unuse(&self, places: &[Place]) -> Result<()> {
        for place in places {
            let entry = self.volume.sectors.entry(*place)?;
            self.volume.sectors.put(*place, &F::unused(entry))?;
        }
        Ok(())
    }
}

/// Returns how many slots a file takes.
pub(super) fn slots_of(record: &impl FileRecord) -> u32 {
    low32(record.entries().len())
}
