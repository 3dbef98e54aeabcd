//! Files made and removed.

use diskfs_clusters::ROOT;
use diskfs_vfs::{InodeNumber, NewKind, Timestamp};

use crate::directory::Name;
use crate::directory_entry::{ARCHIVE, DIRECTORY, ShortEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::long_name::LongName;
use crate::reader::find;
use crate::volume::{DirectoryStart, no_such_file};

use super::Writer;

/// The attributes of a new file of this kind, if FAT has it.
pub(crate) fn attributes_of(kind: NewKind<'_>) -> Result<u8> {
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
        attributes: u8,
    ) -> Result<InodeNumber> {
        let start = self.named_directory(dir)?;
        let name = LongName::to_create(name)?;
        if self.volume.directory(start)?.find(&name.key()).is_some() {
            return Err(ErrorKind::Exists.into());
        }
        let entry = ShortEntry::new([b' '; 11], attributes, Timestamp::now());
        let mut new = self.entries_for(start, &name, &entry, None)?;
        let first = self.find_slots(start, &new)?;
        if new.is_directory() {
            let chain = self.take(1, None)?;
            new.set_cluster(chain.first().ok_or(ErrorKind::NoSpace)?);
            self.write_dots(new.short(), start)?;
        }
        let own = new.short().cluster();
        let place = self.put_entries(start, first, new)?;
        if attributes == DIRECTORY {
            self.volume.set_parent_place(own, place);
        }
        self.touch(dir)?;
        Ok(self.volume.numbers.create(place))
    }

    /// Where a directory begins that has not been removed.
    pub(super) fn named_directory(&self, dir: InodeNumber) -> Result<DirectoryStart> {
        if self.volume.nameless.contains_key(&dir) {
            return Err(no_such_file(dir));
        }
        self.volume.start_of(dir)
    }

    /// The slot, the name and the number of a file.
    pub(super) fn find(
        &self,
        start: DirectoryStart,
        name: &[u8],
    ) -> Result<Option<(u32, Name, InodeNumber)>> {
        let directory = self.volume.directory(start)?;
        let found = find(&directory, name);
        Ok(found.map(|(slot, name)| {
            let inode = self.volume.numbers.of(name.place);
            (slot, name.clone(), inode)
        }))
    }

    pub(crate) fn unlink(&mut self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let start = self.named_directory(dir)?;
        let (slot, found, inode) = self.find(start, name)?.ok_or(ErrorKind::NotFound)?;
        if found.is_directory {
            return Err(ErrorKind::IsADirectory.into());
        }
        let leaving = self.leaving(inode)?;
        self.remove_entries(start, slot)?;
        self.leave(&leaving);
        self.touch(dir)
    }

    pub(crate) fn rmdir(&mut self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let start = self.named_directory(dir)?;
        let (slot, found, inode) = self.find(start, name)?.ok_or(ErrorKind::NotFound)?;
        if !found.is_directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        if !self
            .volume
            .directory(self.volume.start_of(inode)?)?
            .is_empty()
        {
            return Err(ErrorKind::NotEmpty.into());
        }
        let leaving = self.leaving(inode)?;
        self.remove_entries(start, slot)?;
        self.leave(&leaving);
        self.touch(dir)
    }

    /// What must be known of a file before it loses its name.
    pub(super) fn leaving(&self, inode: InodeNumber) -> Result<Leaving> {
        let entry = self.volume.entry(inode)?;
        let chain = self.volume.chain_of(&entry)?;
        Ok(Leaving {
            inode,
            entry,
            chain,
        })
    }

    /// A file has lost its name. It is gone, unless somebody holds it.
    pub(super) fn leave(&mut self, file: &Leaving) {
        if self.holds.contains(file.inode) {
            self.volume.numbers.unlink(file.inode);
            self.volume.nameless.insert(file.inode, file.entry);
            return;
        }
        self.volume.numbers.remove(file.inode);
        if file.entry.is_directory() {
            self.volume.forget_directory(file.entry.cluster());
        }
        self.free_all(&file.entry, &file.chain);
    }

    /// A directory has changed now.
    pub(super) fn touch(&mut self, dir: InodeNumber) -> Result<()> {
        if dir == ROOT {
            return Ok(());
        }
        let mut entry = self.volume.entry(dir)?;
        entry.set_modified(Timestamp::now());
        self.put_entry(dir, &entry)
    }
}

/// A file that is about to lose its name.
#[derive(Debug)]
pub(super) struct Leaving {
    inode: InodeNumber,
    entry: ShortEntry,
    chain: std::sync::Arc<diskfs_clusters::Chain>,
}

fn no_such_kind(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("FAT has no {what}"))
}
