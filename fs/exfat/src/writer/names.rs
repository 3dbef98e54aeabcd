//! Files made and removed.

use std::sync::Arc;

use diskfs_clusters::{Chain, ROOT};
use diskfs_vfs::{InodeNumber, NewKind, Timestamp};

use crate::directory::Name;
use crate::directory_entry::{ARCHIVE, DIRECTORY, FileEntry};
use crate::entry_set::EntrySet;
use crate::error::{Error, ErrorKind, Result};
use crate::file_name::FileName;
use crate::volume::no_such_file;

use super::Writer;
use super::slots::slots_of;

/// The attributes of a new file of this kind, if exFAT has it.
pub(crate) fn attributes_of(kind: NewKind<'_>) -> Result<u16> {
    match kind {
        NewKind::Regular => Ok(ARCHIVE),
        NewKind::Directory => Ok(DIRECTORY),
        NewKind::Symlink(_) => Err(no_such_kind("symbolic links")),
        _ => Err(no_such_kind("device nodes, FIFOs or sockets")),
    }
}

impl Writer {
    pub(crate) fn create(
        &mut self,
        dir: InodeNumber,
        name: &[u8],
        attributes: u16,
    ) -> Result<InodeNumber> {
        self.check_named(dir)?;
        let name = FileName::to_create(name, &self.volume.upcase)?;
        if self.volume.directory(dir)?.find(name.key()).is_some() {
            return Err(ErrorKind::Exists.into());
        }
        let mut set = EntrySet::new(FileEntry::new(attributes, Timestamp::now()), &name);
        let first = self.find_slots(dir, slots_of(&set))?;
        if set.file.is_directory() {
            let len_bytes = u64::from(self.volume.boot.cluster_bytes);
            let chain = self.add_clusters(&mut set.stream, &Arc::default(), 1)?;
            self.clear_cluster(chain.last().ok_or(ErrorKind::NoSpace)?)?;
            set.stream.set_size(len_bytes, len_bytes);
        }
        let place = self.put_entries(dir, first, &set)?;
        let inode = self.volume.numbers.create(place);
        if set.file.is_directory() {
            self.volume.set_parent(inode, dir);
        }
        self.touch(dir)?;
        Ok(inode)
    }

    /// Fails for a directory that has been removed.
    pub(super) fn check_named(&self, dir: InodeNumber) -> Result<()> {
        if self.volume.nameless.contains_key(&dir) {
            return Err(no_such_file(dir));
        }
        self.volume.directory_chain(dir).map(drop)
    }

    /// The slot, the name and the number of a file.
    pub(super) fn find(
        &self,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<Option<(u32, Name, InodeNumber)>> {
        let directory = self.volume.directory(dir)?;
        let found = self.volume.find(&directory, name);
        Ok(found.map(|(slot, name)| {
            let inode = self.volume.numbers.of(name.place);
            (slot, name.clone(), inode)
        }))
    }

    pub(crate) fn unlink(&mut self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.check_named(dir)?;
        let (slot, found, inode) = self.find(dir, name)?.ok_or(ErrorKind::NotFound)?;
        if found.is_directory {
            return Err(ErrorKind::IsADirectory.into());
        }
        let leaving = self.leaving(inode)?;
        self.remove_entries(dir, slot)?;
        self.leave(leaving);
        self.touch(dir)
    }

    pub(crate) fn rmdir(&mut self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.check_named(dir)?;
        let (slot, found, inode) = self.find(dir, name)?.ok_or(ErrorKind::NotFound)?;
        if !found.is_directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        if !self.volume.directory(inode)?.is_empty() {
            return Err(ErrorKind::NotEmpty.into());
        }
        let leaving = self.leaving(inode)?;
        self.remove_entries(dir, slot)?;
        self.leave(leaving);
        self.touch(dir)
    }

    /// What must be known of a file before it loses its name.
    pub(super) fn leaving(&self, inode: InodeNumber) -> Result<Leaving> {
        let set = self.volume.set(inode)?;
        set.check_removable()?;
        let chain = self.volume.chain_of(&set.stream)?;
        Ok(Leaving { inode, set, chain })
    }

    /// A file has lost its name. It is gone, unless somebody holds it.
    pub(super) fn leave(&mut self, file: Leaving) {
        if self.holds.contains(file.inode) {
            self.volume.numbers.unlink(file.inode);
            self.volume.nameless.insert(file.inode, file.set);
            return;
        }
        self.volume.numbers.remove(file.inode);
        if file.set.file.is_directory() {
            self.volume.forget_directory(file.inode);
        }
        self.free_all(&file.set.stream, &file.chain);
    }

    /// A directory has changed now.
    pub(super) fn touch(&mut self, dir: InodeNumber) -> Result<()> {
        if dir == ROOT {
            return Ok(());
        }
        let mut set = self.volume.set(dir)?;
        set.file.set_modified(Timestamp::now());
        self.put_set(dir, &set)
    }
}

/// A file that is about to lose its name.
#[derive(Debug)]
pub(super) struct Leaving {
    inode: InodeNumber,
    set: EntrySet,
    chain: Arc<Chain>,
}

fn no_such_kind(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("exFAT has no {what}"))
}
