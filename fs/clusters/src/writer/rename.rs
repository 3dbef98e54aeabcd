//! Renaming of files.
//!
//! If both names are in one sector, they are written together, and a crash leaves either the old or
//! the new state. Otherwise there are two cases:
//!
//! * The new name replaces a file: the source loses its old name first. A crash leaves the file
//!   that was to be replaced.
//! * The new name was unused: the source keeps its old name until the new one is durable. A crash
//!   leaves both names; these filesystems have no better way.

use diskfs_vfs::{Error, ErrorKind, InodeNumber, RenameMode, Result};

use crate::directory::Name;
use crate::format::{FileRecord, Format};
use crate::name::NewName;
use crate::place::EntryPlace;

use super::Writer;
use super::slots::slots_of;

/// The action for a file that has the new name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Refuse,
}

impl Existing {
    /// Returns the mode for `mode`, if `filesystem` supports it.
    pub(crate) fn of(mode: RenameMode, filesystem: &str) -> Result<Self> {
        match mode {
            RenameMode::Replace => Ok(Self::Replace),
            RenameMode::NoReplace => Ok(Self::Refuse),
            _ => {
                let what = "exchanging names and whiteouts";
                let reason = format!("{what} are not supported on {filesystem}");
                Err(Error::new(ErrorKind::Unsupported, reason))
            }
        }
    }
}

/// A file together with one of its names.
#[derive(Debug)]
struct NamedFile<F: Format> {
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
                if source.name.displayed == new_name.text.as_bytes() {
                    return Ok(());
                }
                None // The same file: its name changes case, or its alias becomes its name.
            }
            target => target,
        };
        if self.has_inside(&source, to.0)? {
            let reason = "cannot move a directory into itself";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let moved = match target {
            Some(_) if existing == Existing::Refuse => return Err(ErrorKind::Exists.into()),
            // The target is an ancestor of the source (Linux, `do_renameat2`).
            Some(target) if self.has_inside(&target, from.0)? => {
                return Err(ErrorKind::NotEmpty.into());
            }
            Some(target) => self.replace(&source, &target)?,
            None => self.set_name(&source, to.0, &new_name)?,
        };
        self.volume.numbers.move_to(source.inode, moved);
        if source.name.is_directory {
            self.volume.set_parent(source.inode, to.0);
            if from.0 != to.0 {
                self.set_parent(source.inode, to.0)?;
            }
        }
        self.touch(from.0)?;
        self.touch(to.0)
    }

    fn named(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<NamedFile<F>>> {
        let Some((slot, name, inode)) = self.find(dir, name)? else {
            return Ok(None);
        };
        Ok(Some(NamedFile {
            dir,
            slot,
            name,
            inode,
            record: self.volume.record(inode)?,
        }))
    }

    /// Returns true if the file is a directory, and `dir` is that directory or below it.
    fn has_inside(&self, file: &NamedFile<F>, dir: InodeNumber) -> Result<bool> {
        Ok(file.name.is_directory && self.volume.is_at_or_above(file.inode, dir)?)
    }

    /// Replaces the target's entries with those of the source.
    fn replace(&mut self, source: &NamedFile<F>, target: &NamedFile<F>) -> Result<EntryPlace> {
        match (source.name.is_directory, target.name.is_directory) {
            (true, false) => return Err(ErrorKind::NotADirectory.into()),
            (false, true) => return Err(ErrorKind::IsADirectory.into()),
            (true, true) if !self.volume.directory(target.inode)?.is_empty() => {
                return Err(ErrorKind::NotEmpty.into());
            }
            _ => {}
        }
        source.record.check_removable()?;
        let leaving = self.unlinked_file(target.inode)?;
        let place = target.name.place;
        let together = self
            .volume
            .sectors
            .are_in_one_sector(source.name.place, place);
        if !together {
            self.commit()?;
        }
        self.remove_entries(source.dir, source.slot)?;
        if !together {
            self.commit_durably()?;
        }
        self.put_record_at(place, &source.record.named_as(&target.record))?;
        self.drop_unlinked(leaving);
        Ok(place)
    }

    /// Gives the file a name that is not in use.
    fn set_name(
        &mut self,
        source: &NamedFile<F>,
        to_dir: InodeNumber,
        name: &NewName,
    ) -> Result<EntryPlace> {
        if source.dir == to_dir {
            let new = self.with_name(source, to_dir, name, Some(&source.record))?;
            if let Some(first) = self.find_slots_in_sector(to_dir, source.slot, slots_of(&new))? {
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

    /// Returns the file with a new name that is unique in a directory.
    fn with_name(
        &self,
        source: &NamedFile<F>,
        to_dir: InodeNumber,
        name: &NewName,
        own: Option<&F::Record>,
    ) -> Result<F::Record> {
        let directory = self.volume.directory(to_dir)?;
        let format = &self.volume.format;
        format.named(&source.record, name, &directory, own)
    }

    /// Updates the parent of a directory.
    fn set_parent(&self, inode: InodeNumber, parent: InodeNumber) -> Result<()> {
        let own = self.volume.record(inode)?;
        let parent = self.first_cluster(parent)?;
        let sectors = &self.volume.sectors;
        self.volume.format.set_parent(sectors, &own, parent)
    }
}
