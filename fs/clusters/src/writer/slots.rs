//! Insertion and removal of directory entries.
//!
//! A name within one sector is written, or lost, as a whole. A name in several sectors is a file
//! only if the sector of its head is there. On a filesystem where a torn name misleads readers,
//! that sector is written after the others and removed before them.

use std::sync::Arc;

use diskfs_vfs::{ErrorKind, InodeNumber, Result};

use crate::chain::Cluster;
use crate::directory::{Directory, Name, SlotRequest};
use crate::format::{FileRecord, Format};
use crate::geometry::Root;
use crate::name::NewName;
use crate::numbers::ROOT;
use crate::place::{ENTRY_LEN, EntryPlace, RawEntry};
use crate::{device_failed, low32};

use super::Writer;

impl<F: Format> Writer<F> {
    fn room_for(&self, count: u32) -> SlotRequest {
        SlotRequest {
            count,
            head: F::HEAD_ENTRIES,
            per_sector: self.volume.geometry().sector_bytes / 32,
        }
    }

    /// Finds consecutive free slots for `count` entries. Makes the directory longer if needed.
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

    /// Finds free slots in the sector that contains `slot`; those of the name in `slot` count as
    /// free.
    pub(super) fn find_slots_in_sector(
        &self,
        dir: InodeNumber,
        slot: u32,
        count: u32,
    ) -> Result<Option<u32>> {
        let directory = self.volume.directory(dir)?;
        Ok(directory.find_free_in_sector(slot, self.room_for(count)))
    }

    /// Adds a cluster to a directory. The cluster is written as zeroes before anything leads to it.
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
                let added = self.allocate(1, span.chain.last())?;
                self.link(&span.chain, &added)?;
                let mut all = (*span.chain).clone();
                all.append(&added);
                let all = Arc::new(all);
                self.volume.cache_chain(first, Arc::clone(&all));
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

    /// Writes a cluster of a directory: these entries, then zeroes.
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

    /// Writes a file's entries into the slots from `first` on, and returns the place of its head.
    pub(super) fn put_entries(
        &mut self,
        dir: InodeNumber,
        first: u32,
        record: &F::Record,
        new_name: &NewName,
    ) -> Result<EntryPlace> {
        let directory = self.volume.directory(dir)?;
        let entries = record.entries();
        let slots = first..first.saturating_add(low32(entries.len()));
        let head = F::head(&slots);
        let place = directory.place(head);
        let alias = self.volume.format.alias(record);
        let name = Name {
            displayed: new_name.text.as_bytes().to_vec(),
            alias: alias.filter(|alias| *alias != new_name.key),
            key: new_name.key.clone(),
            slots: slots.clone(),
            is_directory: record.is_directory(),
            place,
        };
        self.await_removal(dir, &name)?;
        let entries: Vec<(EntryPlace, RawEntry)> = slots
            .clone()
            .zip(entries)
            .map(|(slot, entry)| (directory.place(slot), entry))
            .collect();
        let never_used = F::unused([0; ENTRY_LEN]);
        // Entries of zeroes before the new ones would end the directory.
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
    fn is_head(&self, head: EntryPlace, entry: EntryPlace) -> bool {
        F::TORN_NAMES_ARE_HARMLESS || self.volume.sectors.are_in_one_sector(head, entry)
    }

    /// Makes the removal of an earlier file of this name durable, unless the same write replaces
    /// its entries with the new ones.
    fn await_removal(&mut self, dir: InodeNumber, name: &Name) -> Result<()> {
        let is_elsewhere = name.keys().any(|key| {
            let before = self.removed.get(&(dir, key.clone()));
            before.is_some_and(|before| !self.volume.sectors.are_in_one_sector(*before, name.place))
        });
        if is_elsewhere {
            self.commit_durably()?;
        }
        Ok(())
    }

    /// Ends the directory at `place`. Another implementation may have left stale entries there.
    fn end_directory(&mut self, place: EntryPlace) -> Result<()> {
        let [kind, ..] = self.volume.sectors.entry(place)?;
        if kind != 0 {
            self.volume.sectors.put(place, &[0; ENTRY_LEN])?;
        }
        Ok(())
    }

    /// Removes the entries of a name from a directory.
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

    fn unuse(&self, places: &[EntryPlace]) -> Result<()> {
        for place in places {
            let entry = self.volume.sectors.entry(*place)?;
            self.volume.sectors.put(*place, &F::unused(entry))?;
        }
        Ok(())
    }
}

/// Returns the number of slots that a file needs.
pub(super) fn slots_of(record: &impl FileRecord) -> u32 {
    low32(record.entries().len())
}
