//! Renaming.
//!
//! Two entries that lie in one sector are written together, so that a crash leaves the one or the
//! other. Else what replaces a file loses its own name first (a crash then leaves what was to be
//! replaced), and what gets a name that nobody had keeps its old one until the new one is durable (a
//! crash then leaves both: FAT has nothing better).

use diskfs_vfs::{InodeNumber, RenameMode};

use crate::directory::Name;
use crate::directory_entry::ShortEntry;
use crate::error::{Error, ErrorKind, Result};
use crate::long_name::LongName;
use crate::volume::DirectoryStart;

use super::Writer;

/// What becomes of a file that has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Refuse,
}

impl Existing {
    /// As a caller says it, if FAT can do it.
    pub(crate) fn of(mode: RenameMode) -> Result<Self> {
        match mode {
            RenameMode::Replace => Ok(Self::Replace),
            RenameMode::NoReplace => Ok(Self::Refuse),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "files on FAT can't change names, nor leave whiteouts",
            )),
        }
    }
}

/// A file with the name that it has.
#[derive(Debug)]
struct Named {
    start: DirectoryStart,
    slot: u32,
    name: Name,
    inode: InodeNumber,
    entry: ShortEntry,
}

impl Writer {
    pub(crate) fn rename(
        &mut self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        existing: Existing,
    ) -> Result<()> {
        let from_start = self.named_directory(from.0)?;
        let source = self.named(from_start, from.1)?.ok_or(ErrorKind::NotFound)?;
        let to_start = self.named_directory(to.0)?;
        let new_name = LongName::to_create(to.1)?;
        let target = self.named(to_start, to.1)?;
        let target = match target {
            Some(target) if target.inode == source.inode => {
                if existing == Existing::Refuse {
                    return Err(ErrorKind::Exists.into());
                }
                if target.name.shown == new_name.text().as_bytes() {
                    return Ok(());
                }
                None // It changes case, or its short name becomes its name.
            }
            target => target,
        };
        if self.has_inside(&source, to_start)? {
            let reason = "a directory can't go below itself";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let moved = match target {
            Some(_) if existing == Existing::Refuse => return Err(ErrorKind::Exists.into()),
            // What it would replace has it inside (Linux, `do_renameat2`).
            Some(target) if self.has_inside(&target, from_start)? => {
                return Err(ErrorKind::NotEmpty.into());
            }
            Some(target) => self.replace(&source, &target)?,
            None => self.give_name(&source, to_start, &new_name)?,
        };
        self.volume.numbers.move_to(source.inode, moved);
        if source.name.is_directory {
            let own = source.entry.cluster();
            self.volume.set_parent_place(own, moved);
            if from_start != to_start {
                self.set_dot_dot(own, to_start)?;
            }
        }
        self.touch(from.0)?;
        self.touch(to.0)
    }

    fn named(&self, start: DirectoryStart, name: &[u8]) -> Result<Option<Named>> {
        let Some((slot, name, inode)) = self.find(start, name)? else {
            return Ok(None);
        };
        let entry = self.volume.entry(inode)?;
        Ok(Some(Named {
            start,
            slot,
            name,
            inode,
            entry,
        }))
    }

    /// Whether it is a directory, and `start` is the same one or one below.
    fn has_inside(&self, file: &Named, start: DirectoryStart) -> Result<bool> {
        let own = file.entry.cluster();
        Ok(file.name.is_directory && self.volume.is_at_or_above(own, start)?)
    }

    /// The file takes the entry of another.
    fn replace(&mut self, source: &Named, target: &Named) -> Result<crate::directory_entry::Place> {
        match (source.name.is_directory, target.name.is_directory) {
            (true, false) => return Err(ErrorKind::NotADirectory.into()),
            (false, true) => return Err(ErrorKind::IsADirectory.into()),
            (true, true) if !self.volume.directory(target.entry.cluster())?.is_empty() => {
                return Err(ErrorKind::NotEmpty.into());
            }
            _ => {}
        }
        let leaving = self.leaving(target.inode)?;
        let place = target.name.place;
        let together = self.volume.sectors.are_one(source.name.place, place);
        if !together {
            self.commit()?;
        }
        self.remove_entries(source.start, source.slot)?;
        if !together {
            self.commit()?;
            self.flush()?;
        }
        let entry = source.entry.named_as(&target.entry);
        self.volume.sectors.put(place, &entry.to_bytes())?;
        self.leave(&leaving);
        Ok(place)
    }

    /// The file gets a name that nobody has.
    fn give_name(
        &mut self,
        source: &Named,
        to_start: DirectoryStart,
        name: &LongName,
    ) -> Result<crate::directory_entry::Place> {
        if source.start == to_start {
            let own = Some(&source.name.short);
            let new = self.entries_for(to_start, name, &source.entry, own)?;
            if let Some(first) = self.find_slots_beside(to_start, source.slot, &new)? {
                self.remove_entries(source.start, source.slot)?;
                return self.put_entries(to_start, first, new);
            }
        }
        let new = self.entries_for(to_start, name, &source.entry, None)?;
        let first = self.find_slots(to_start, &new)?;
        let place = self.put_entries(to_start, first, new)?;
        self.commit()?;
        self.flush()?;
        self.remove_entries(source.start, source.slot)?;
        self.commit()?;
        Ok(place)
    }
}
