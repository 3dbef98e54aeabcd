//! Renaming.
//!
//! Two names that lie in one sector are written together, so that a crash leaves the one or the other.
//! Else what replaces a file loses its own name first (a crash then leaves what was to be replaced),
//! and what gets a name that nobody had keeps its old one until the new one is durable (a crash then
//! leaves both: these filesystems have nothing better).

use diskfs_vfs::{Error, ErrorKind, InodeNumber, RenameMode, Result};

use crate::directory::Name;
use crate::format::{FileRecord, Format};
use crate::name::NewName;
use crate::place::Place;

use super::Writer;
use super::slots::slots_of;

/// What becomes of a file that has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Refuse,
}

impl Existing {
    /// Returns what a caller asks for, if `filesystem` can do it.
    pub(crate) fn of(mode: RenameMode, filesystem: &str) -> Result<Self> {
        match mode {
            RenameMode::Replace => Ok(Self::Replace),
            RenameMode::NoReplace => Ok(Self::Refuse),
            _ => {
                let reason = "can't exchange their names, nor leave whiteouts";
                let reason = format!("files on {filesystem} {reason}");
                Err(Error::new(ErrorKind::Unsupported, reason))
            }
        }
    }
}

/// A file with the name that it has.
#[derive(Debug)]
struct Named<F: Format> {
    dir: InodeNumber,
    slot: u32,
    name: Name,
    inode: InodeNumber,
    record: F::Record,
}

impl<F: Format> Writer<F> {
    pub(crate) fn rename(
        &mut self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        existing: Existing,
    ) -> Result<()> {
        self.check_named(from.0)?;
        let source = self.named(from.0, from.1)?.ok_or(ErrorKind::NotFound)?;
        self.check_named(to.0)?;
        let new_name = self.new_name(to.1)?;
        let target = self.named(to.0, to.1)?;
        let target = match target {
            Some(target) if target.inode == source.inode => {
                if existing == Existing::Refuse {
                    return Err(ErrorKind::Exists.into());
                }
                if source.name.shown == new_name.text.as_bytes() {
                    return Ok(());
                }
                None // It changes case, or its second name becomes its name.
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
            if from.0 != to.0 {
                self.set_above(source.inode, to.0)?;
            }
        }
        self.touch(from.0)?;
        self.touch(to.0)
    }

    fn named(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<Named<F>>> {
        let Some((slot, name, inode)) = self.find(dir, name)? else {
            return Ok(None);
        };
        Ok(Some(Named {
            dir,
            slot,
            name,
            inode,
            record: self.volume.record(inode)?,
        }))
    }

    /// Returns true if it is a directory, and `dir` is the same one or one below.
    fn has_inside(&self, file: &Named<F>, dir: InodeNumber) -> Result<bool> {
        Ok(file.name.is_directory && self.volume.is_at_or_above(file.inode, dir)?)
    }

    /// Gives the file the entries of another.
    fn replace(&mut self, source: &Named<F>, target: &Named<F>) -> Result<Place> {
        match (source.name.is_directory, target.name.is_directory) {
            (true, false) => return Err(ErrorKind::NotADirectory.into()),
            (false, true) => return Err(ErrorKind::IsADirectory.into()),
            (true, true) if !self.volume.directory(target.inode)?.is_empty() => {
                return Err(ErrorKind::NotEmpty.into());
            }
            _ => {}
        }
        source.record.check_removable()?;
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
        self.put_record_at(place, &source.record.named_as(&target.record))?;
        self.leave(leaving);
        Ok(place)
    }

    /// Gives the file a name that nobody has.
    fn give_name(
        &mut self,
        source: &Named<F>,
        to_dir: InodeNumber,
        name: &NewName,
    ) -> Result<Place> {
        if source.dir == to_dir {
            let new = self.with_name(source, to_dir, name, Some(&source.record))?;
            if let Some(first) = self.find_slots_beside(to_dir, source.slot, slots_of(&new))? {
                self.remove_entries(source.dir, source.slot)?;
                return self.put_entries(to_dir, first, &new, name);
            }
        }
        let new = self.with_name(source, to_dir, name, None)?;
        let first = self.find_slots(to_dir, slots_of(&new))?;
        let place = self.put_entries(to_dir, first, &new, name)?;
        self.commit_durably()?;
        self.remove_entries(source.dir, source.slot)?;
        self.commit()?;
        Ok(place)
    }

    /// Returns the file with a name that it can have in a directory.
    fn with_name(
        &self,
        source: &Named<F>,
        to_dir: InodeNumber,
        name: &NewName,
        own: Option<&F::Record>,
    ) -> Result<F::Record> {
        let directory = self.volume.directory(to_dir)?;
        let format = &self.volume.format;
        format.named(&source.record, name, &directory, own)
    }

    /// Notes in a directory that it lies below another one now.
    fn set_above(&self, inode: InodeNumber, above: InodeNumber) -> Result<()> {
        let own = self.volume.record(inode)?;
        let above = self.first_cluster(above)?;
        let sectors = &self.volume.sectors;
        self.volume.format.set_above(sectors, &own, above)
    }
}
