//! Renaming.
//!
//! Two sets that lie in one sector are written together, so that a crash leaves the one or the other.
//! Else what replaces a file loses its own name first (a crash then leaves what was to be replaced),
//! and what gets a name that nobody had keeps its old one until the new one is durable (a crash then
//! leaves both: exFAT has nothing better).

use diskfs_clusters::Place;
use diskfs_vfs::{InodeNumber, RenameMode};

use crate::directory::Name;
use crate::entry_set::EntrySet;
use crate::error::{Error, ErrorKind, Result};
use crate::file_name::FileName;

use super::Writer;
use super::slots::slots_of;

/// What becomes of a file that has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Refuse,
}

impl Existing {
    /// As a caller says it, if exFAT can do it.
    pub(crate) fn of(mode: RenameMode) -> Result<Self> {
        match mode {
            RenameMode::Replace => Ok(Self::Replace),
            RenameMode::NoReplace => Ok(Self::Refuse),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "files on exFAT can't change names, nor leave whiteouts",
            )),
        }
    }
}

/// A file with the name that it has.
#[derive(Debug)]
struct Named {
    dir: InodeNumber,
    slot: u32,
    name: Name,
    inode: InodeNumber,
    set: EntrySet,
}

impl Writer {
    pub(crate) fn rename(
        &mut self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        existing: Existing,
    ) -> Result<()> {
        self.check_named(from.0)?;
        let source = self.named(from.0, from.1)?.ok_or(ErrorKind::NotFound)?;
        self.check_named(to.0)?;
        let new_name = FileName::to_create(to.1, &self.volume.upcase)?;
        let target = self.named(to.0, to.1)?;
        let target = match target {
            Some(target) if target.inode == source.inode => {
                if existing == Existing::Refuse {
                    return Err(ErrorKind::Exists.into());
                }
                if source.set.name_units() == new_name.units() {
                    return Ok(());
                }
                None // It changes case.
            }
            target => target,
        };
        if self.has_inside(&source, to.0)? {
            let reason = "a directory can't go below itself";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let moved = match target {
            Some(_) if existing == Existing::Refuse => return Err(ErrorKind::Exists.into()),
            // What it would replace has it inside (Linux, `do_renameat2`).
            Some(target) if self.has_inside(&target, from.0)? => {
                return Err(ErrorKind::NotEmpty.into());
            }
            Some(target) => self.replace(&source, &target)?,
            None => self.give_name(&source, to.0, &new_name)?,
        };
        self.volume.numbers.move_to(source.inode, moved);
        if source.name.is_directory {
            self.volume.set_parent(source.inode, to.0);
        }
        self.touch(from.0)?;
        self.touch(to.0)
    }

    fn named(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<Named>> {
        let Some((slot, name, inode)) = self.find(dir, name)? else {
            return Ok(None);
        };
        Ok(Some(Named {
            dir,
            slot,
            name,
            inode,
            set: self.volume.set(inode)?,
        }))
    }

    /// Whether it is a directory, and `dir` is the same one or one below.
    fn has_inside(&self, file: &Named, dir: InodeNumber) -> Result<bool> {
        Ok(file.name.is_directory && self.volume.is_at_or_above(file.inode, dir)?)
    }

    /// The file takes the entries of another.
    fn replace(&mut self, source: &Named, target: &Named) -> Result<Place> {
        match (source.name.is_directory, target.name.is_directory) {
            (true, false) => return Err(ErrorKind::NotADirectory.into()),
            (false, true) => return Err(ErrorKind::IsADirectory.into()),
            (true, true) if !self.volume.directory(target.inode)?.is_empty() => {
                return Err(ErrorKind::NotEmpty.into());
            }
            _ => {}
        }
        source.set.check_removable()?;
        let leaving = self.leaving(target.inode)?;
        let place = target.name.place;
        let together = self.volume.sectors.are_one(source.name.place, place);
        if !together {
            self.commit()?;
        }
        self.remove_entries(source.dir, source.slot)?;
        if !together {
            self.commit_durably()?;
        }
        self.put_set_at(place, &source.set.named_as(&target.set))?;
        self.leave(leaving);
        Ok(place)
    }

    /// The file gets a name that nobody has.
    fn give_name(&mut self, source: &Named, to_dir: InodeNumber, name: &FileName) -> Result<Place> {
        let new = source.set.named(name);
        if source.dir == to_dir
            && let Some(first) = self.find_slots_beside(to_dir, source.slot, slots_of(&new))?
        {
            self.remove_entries(source.dir, source.slot)?;
            return self.put_entries(to_dir, first, &new);
        }
        let first = self.find_slots(to_dir, slots_of(&new))?;
        // Making room may have changed the directory, when it goes into itself.
        let place = self.put_entries(to_dir, first, &new)?;
        self.commit_durably()?;
        self.remove_entries(source.dir, source.slot)?;
        self.commit()?;
        Ok(place)
    }
}
