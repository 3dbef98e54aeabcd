//! Entries put into directories and taken out of them.
//!
//! A set that lies within one sector is written, or lost, as a whole. Of one that does not, what is in
//! the sector of its first entry makes it a set: that is written after the rest, and taken away before.

use diskfs_clusters::{Place, ROOT};
use diskfs_vfs::InodeNumber;

use crate::bytes::low32;
use crate::directory::{MAX_BYTES, Name};
use crate::directory_entry::{END, Entry, FILE, IN_USE};
use crate::entry_set::{EntrySet, unused};
use crate::error::{Corrupt, ErrorKind, Result, device_failed};

use super::Writer;

impl Writer {
    fn slots_per_sector(&self) -> u32 {
        self.volume.boot.sector_bytes / 32
    }

    /// Finds room for so many entries, or makes some.
    pub(super) fn find_slots(&mut self, dir: InodeNumber, count: u32) -> Result<u32> {
        let per_sector = self.slots_per_sector();
        loop {
            let directory = self.volume.directory(dir)?;
            if let Some(first) = directory.find_free(count, per_sector) {
                return Ok(first);
            }
            drop(directory);
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
        Ok(directory.find_free_beside(slot, count, self.slots_per_sector()))
    }

    /// Adds a cluster to a directory. It is zeroes on the device before anything leads there.
    fn grow_directory(&mut self, dir: InodeNumber) -> Result<()> {
        let (chain, len_bytes) = self.volume.directory_chain(dir)?;
        let cluster_bytes = u64::from(self.volume.boot.cluster_bytes);
        let new_len_bytes = len_bytes.saturating_add(cluster_bytes);
        if new_len_bytes > MAX_BYTES || len_bytes != self.volume.boot.bytes_of(chain.clusters()) {
            return Err(ErrorKind::NoSpace.into());
        }
        let all = if dir == ROOT {
            let added = self.take(1, chain.last())?;
            self.link(&chain, &added)?;
            let mut all = (*chain).clone();
            all.append(&added);
            let all = std::sync::Arc::new(all);
            let root = self.volume.boot.root;
            self.volume.keep_chain(root, std::sync::Arc::clone(&all));
            all
        } else {
            let mut set = self.volume.set(dir)?;
            let all = self.add_clusters(&mut set.stream, &chain, 1)?;
            set.stream.set_size(new_len_bytes, new_len_bytes);
            self.put_set(dir, &set)?;
            all
        };
        let added = all.last().ok_or(ErrorKind::NoSpace)?;
        self.clear_cluster(added)?;
        self.volume.join(&all);
        let offset = self.volume.boot.offset_of(added);
        self.volume
            .change_directory(dir, |directory| directory.add_room(offset, cluster_bytes))
    }

    /// Makes a cluster of a directory zeroes: no entry is in use.
    pub(super) fn clear_cluster(&mut self, cluster: diskfs_clusters::Cluster) -> Result<()> {
        let offset = self.volume.boot.offset_of(cluster);
        let len_bytes = u64::from(self.volume.boot.cluster_bytes);
        self.device
            .write_zeroes(offset, len_bytes)
            .map_err(device_failed)?;
        self.unflushed = true;
        Ok(())
    }

    /// Puts a set into the slots from `first` on, and returns the place of its first entry.
    pub(super) fn put_entries(
        &mut self,
        dir: InodeNumber,
        first: u32,
        set: &EntrySet,
    ) -> Result<Place> {
        let place = self.volume.directory(dir)?.place(first);
        let name = Name::of(set, place, &self.volume.upcase);
        let name = name.ok_or(Corrupt::EntrySet("its name can't be shown"))?;
        self.await_removal(dir, &name)?;
        let directory = self.volume.directory(dir)?;
        let slots = first..first.saturating_add(name.slots);
        let entries: Vec<(Place, Entry)> = slots
            .clone()
            .zip(set.to_entries())
            .map(|(slot, entry)| (directory.place(slot), entry))
            .collect();
        // Zeroes before them would end the directory.
        for slot in directory.end()..first {
            self.volume.sectors.put(directory.place(slot), &deleted())?;
        }
        if slots.end > directory.end() && slots.end < directory.slots() {
            self.end_directory(directory.place(slots.end))?;
        }
        let is_whole = entries.iter().all(|(at, _)| self.is_head(place, *at));
        if !is_whole {
            for (at, entry) in &entries {
                let entry = if self.is_head(place, *at) {
                    deleted()
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
            .change_directory(dir, |directory| directory.put(first, name))?;
        Ok(place)
    }

    /// Whether an entry is written together with the first of its set.
    fn is_head(&self, first: Place, entry: Place) -> bool {
        self.volume.sectors.are_one(first, entry)
    }

    /// Makes the removal of a file that had this name durable, unless one write puts the new one in
    /// its place.
    fn await_removal(&mut self, dir: InodeNumber, name: &Name) -> Result<()> {
        let before = self.removed.get(&(dir, name.key.clone()));
        let is_elsewhere =
            before.is_some_and(|before| !self.volume.sectors.are_one(*before, name.place));
        if is_elsewhere {
            self.commit_durably()?;
        }
        Ok(())
    }

    /// Nothing is in use from `place` on, though another writer may have left something there.
    fn end_directory(&mut self, place: Place) -> Result<()> {
        let [kind, ..] = self.volume.sectors.entry(place)?;
        if kind != END {
            self.volume.sectors.put(place, &Entry::default())?;
        }
        Ok(())
    }

    /// Takes a name out of a directory.
    pub(super) fn remove_entries(&mut self, dir: InodeNumber, slot: u32) -> Result<()> {
        let directory = self.volume.directory(dir)?;
        let slots = directory
            .names_from(slot)
            .next()
            .map_or(1, |(_, name)| name.slots);
        let places = (slot..slot.saturating_add(slots)).map(|slot| directory.place(slot));
        let first = directory.place(slot);
        let (head, tail): (Vec<_>, Vec<_>) = places.partition(|at| self.is_head(first, *at));
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
            self.removed.insert((dir, name.key), name.place);
        }
        Ok(())
    }

    fn unuse(&self, places: &[Place]) -> Result<()> {
        for place in places {
            let entry = self.volume.sectors.entry(*place)?;
            self.volume.sectors.put(*place, &unused(entry))?;
        }
        Ok(())
    }
}

/// How many slots a set takes.
pub(super) fn slots_of(set: &EntrySet) -> u32 {
    low32(set.len())
}

/// An entry that was never in use, before others that are.
fn deleted() -> Entry {
    let mut entry = Entry::default();
    entry[0] = FILE & !IN_USE;
    entry
}
