//! Entries put into directories and taken out of them.

use diskfs_clusters::Cluster;

use crate::bytes::low32;
use crate::directory::{MAX_SLOTS, Name};
use crate::directory_entry::{DELETED, END, ENTRY_BYTES, ENTRY_LEN, Place, ShortEntry};
use crate::error::{ErrorKind, Result, device_failed};
use crate::long_name::LongName;
use crate::short_name;
use crate::volume::DirectoryStart;

use super::Writer;

/// The entries of one name, the short one last.
#[derive(Debug)]
pub(super) struct NewEntries {
    long: Vec<[u8; ENTRY_LEN]>,
    short: ShortEntry,
    shown: Vec<u8>,
}

impl NewEntries {
    pub(super) fn short(&self) -> &ShortEntry {
        &self.short
    }

    pub(super) fn is_directory(&self) -> bool {
        self.short.is_directory()
    }

    pub(super) fn set_cluster(&mut self, cluster: Cluster) {
        self.short.set_cluster(cluster);
    }

    /// How many slots they take.
    pub(super) fn slots(&self) -> u32 {
        low32(self.long.len()).saturating_add(1)
    }
}

impl Writer {
    fn slots_per_sector(&self) -> u32 {
        self.volume.boot.sector_bytes / 32
    }

    /// The entries that give `entry` this name in a directory. A long name where the short one does
    /// not say it all. The short name `own` counts as free.
    pub(super) fn entries_for(
        &self,
        start: DirectoryStart,
        name: &LongName,
        entry: &ShortEntry,
        own: Option<&[u8; 11]>,
    ) -> Result<NewEntries> {
        let directory = self.volume.directory(start)?;
        let is_taken = |short: &[u8; 11]| own != Some(short) && directory.has_short(short);
        let exact = short_name::exact(name.text()).filter(|short| !is_taken(short));
        let mut short = *entry;
        short.case = 0;
        short.name = match exact {
            Some(exact) => exact,
            None => short_name::unique(name.text(), is_taken).ok_or(ErrorKind::NoSpace)?,
        };
        let long = match exact {
            Some(_) => Vec::new(),
            None => name.entries(short_name::checksum(&short.name)),
        };
        Ok(NewEntries {
            long,
            short,
            shown: name.text().as_bytes().to_vec(),
        })
    }

    /// Finds room for the entries, or makes some.
    pub(super) fn find_slots(&mut self, start: DirectoryStart, new: &NewEntries) -> Result<u32> {
        let per_sector = self.slots_per_sector();
        loop {
            let directory = self.volume.directory(start)?;
            if let Some(first) = directory.find_free(new.slots(), per_sector) {
                return Ok(first);
            }
            drop(directory);
            self.grow_directory(start)?;
        }
    }

    /// Finds room in the sector in which the name in `slot` is, and which may be that name's own.
    pub(super) fn find_slots_beside(
        &self,
        start: DirectoryStart,
        slot: u32,
        new: &NewEntries,
    ) -> Result<Option<u32>> {
        let directory = self.volume.directory(start)?;
        Ok(directory.find_free_beside(slot, new.slots(), self.slots_per_sector()))
    }

    /// Adds a cluster to a directory. It is zeroes on the device before the table leads there.
    fn grow_directory(&mut self, start: DirectoryStart) -> Result<()> {
        let chain = self
            .volume
            .directory_chain(start)?
            .ok_or(ErrorKind::NoSpace)?;
        if self.volume.directory(start)?.slots() >= MAX_SLOTS {
            return Err(ErrorKind::NoSpace.into());
        }
        let added = self.take(1, chain.last())?;
        let first = added.first().ok_or(ErrorKind::NoSpace)?;
        let offset = self.volume.boot.offset_of(first);
        let len_bytes = u64::from(self.volume.boot.cluster_bytes);
        self.device
            .write_zeroes(offset, len_bytes)
            .map_err(device_failed)?;
        self.unflushed = true;
        self.link(&chain, &added)?;
        self.volume
            .change_directory(start, |directory| directory.add_room(offset, len_bytes))
    }

    /// Puts the entries into the slots from `first` on, and returns the place of the short one.
    pub(super) fn put_entries(
        &mut self,
        start: DirectoryStart,
        first: u32,
        new: NewEntries,
    ) -> Result<Place> {
        let end = first.saturating_add(new.slots());
        let slot = end.saturating_sub(1);
        let place = self.volume.directory(start)?.place(slot);
        let name = Name {
            shown: new.shown,
            short: new.short.name,
            first_slot: first,
            is_directory: new.short.is_directory(),
            place,
        };
        self.await_removal(start, &name)?;
        let directory = self.volume.directory(start)?;
        // Zeroes before them would end the directory.
        for slot in directory.end()..first {
            self.volume.sectors.put(directory.place(slot), &deleted())?;
        }
        let entries = new.long.into_iter().chain([new.short.to_bytes()]);
        for (slot, bytes) in (first..).zip(entries) {
            self.volume.sectors.put(directory.place(slot), &bytes)?;
        }
        if end > directory.end() && end < directory.slots() {
            self.end_directory(directory.place(end))?;
        }
        drop(directory);
        self.volume
            .change_directory(start, |directory| directory.put(slot, name))?;
        Ok(place)
    }

    /// Makes the removal of a file that had this name durable, unless one write puts the new one in
    /// its place.
    fn await_removal(&mut self, start: DirectoryStart, name: &Name) -> Result<()> {
        let is_elsewhere = name.keys(self.volume.code_page).into_iter().any(|key| {
            let before = self.removed.get(&(start, key));
            before.is_some_and(|before| !self.volume.sectors.are_one(*before, name.place))
        });
        if is_elsewhere {
            self.commit()?;
            self.flush()?;
        }
        Ok(())
    }

    /// Nothing is in use from `place` on, though another writer may have left something there.
    fn end_directory(&mut self, place: Place) -> Result<()> {
        let [first, ..] = ShortEntry::read(&self.volume.sectors, place)?.name;
        if first != END {
            self.volume.sectors.put(place, &[0; ENTRY_LEN])?;
        }
        Ok(())
    }

    /// Takes a name out of a directory.
    pub(super) fn remove_entries(&mut self, start: DirectoryStart, slot: u32) -> Result<()> {
        let directory = self.volume.directory(start)?;
        let first = directory
            .names_from(slot)
            .next()
            .map_or(slot, |(_, name)| name.first_slot);
        for nth in first..=slot {
            let place = directory.place(nth);
            let mut entry = ShortEntry::read(&self.volume.sectors, place)?;
            entry.name[0] = DELETED;
            self.volume.sectors.put(place, &entry.to_bytes())?;
        }
        drop(directory);
        let removed = self
            .volume
            .change_directory(start, |directory| directory.remove(slot))?;
        if let Some(name) = removed {
            for key in name.keys(self.volume.code_page) {
                self.removed.insert((start, key), name.place);
            }
        }
        Ok(())
    }

    /// The contents of a new directory's first cluster: `.` and `..`.
    pub(super) fn write_dots(&mut self, own: &ShortEntry, above: DirectoryStart) -> Result<()> {
        let offset = self.volume.boot.offset_of(own.cluster());
        let len_bytes = u64::from(self.volume.boot.cluster_bytes);
        self.device
            .write_zeroes(offset, len_bytes)
            .map_err(device_failed)?;
        let mut dot = *own;
        dot.name = *b".          ";
        let mut dot_dot = *own;
        dot_dot.name = *b"..         ";
        dot_dot.set_cluster(above);
        for (entry, at) in [(dot, offset), (dot_dot, offset.saturating_add(ENTRY_BYTES))] {
            self.device
                .write_at(at, &entry.to_bytes())
                .map_err(device_failed)?;
        }
        self.unflushed = true;
        Ok(())
    }

    /// A directory has come below another.
    pub(super) fn set_dot_dot(&mut self, own: DirectoryStart, above: DirectoryStart) -> Result<()> {
        let place = self.volume.dot_dot_place(own);
        let mut entry = ShortEntry::read(&self.volume.sectors, place)?;
        entry.set_cluster(above);
        self.volume.sectors.put(place, &entry.to_bytes())
    }
}

fn deleted() -> [u8; ENTRY_LEN] {
    let mut entry = [0; ENTRY_LEN];
    entry[0] = DELETED;
    entry
}
