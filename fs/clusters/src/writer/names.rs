//! Creation and removal of files.

use std::sync::Arc;

use diskfs_vfs::{ErrorKind, InodeNumber, Result};

use crate::chain::{Chain, Cluster};
use crate::directory::Name;
use crate::format::{FileRecord, Format};
use crate::name::NewName;
use crate::numbers::ROOT;
use crate::volume::no_such_file;

use super::Writer;
use super::slots::slots_of;

impl<F: Format> Writer<F> {
    pub(crate) fn create(
        &mut self,
        dir: InodeNumber,
        name: &[u8],
        is_directory: bool,
    ) -> Result<InodeNumber> {
        self.check_named(dir)?;
        let name = self.new_name(name)?;
        let directory = self.volume.directory(dir)?;
        if directory.has_key(&name.key) {
            return Err(ErrorKind::Exists.into());
        }
        let record = F::new_record(is_directory, self.now());
        let format = &self.volume.format;
        let mut record = format.named(&record, &name, &directory, None)?;
        drop(directory);
        let first = self.find_slots(dir, slots_of(&record))?;
        if is_directory {
            let chain = self.add_clusters(&mut record, &Arc::default(), 1)?;
            let cluster = chain.last().ok_or(ErrorKind::NoSpace)?;
            let len_bytes = u64::from(self.volume.geometry().cluster_bytes);
            record.set_size(len_bytes, len_bytes);
            let entries = F::first_entries(&record, self.first_cluster(dir)?);
            self.clear_cluster(cluster, &entries)?;
        }
        let place = self.put_entries(dir, first, &record, &name)?;
        let inode = self.volume.numbers.create(place);
        if is_directory {
            self.volume.set_parent(inode, dir);
        }
        self.touch(dir)?;
        Ok(inode)
    }

    pub(super) fn new_name(&self, name: &[u8]) -> Result<NewName> {
        NewName::new(name, F::NAME, |units| self.volume.format.fold(units))
    }

    /// Returns the first cluster of a directory; `None` for the root, whatever its location.
    pub(super) fn first_cluster(&self, dir: InodeNumber) -> Result<Option<Cluster>> {
        if dir == ROOT {
            return Ok(None);
        }
        Ok(self.volume.record(dir)?.first())
    }

    /// Fails if the directory has been removed.
    pub(super) fn check_named(&self, dir: InodeNumber) -> Result<()> {
        if self.volume.nameless.contains_key(&dir) {
            return Err(no_such_file(dir));
        }
        self.volume.directory_span(dir).map(drop)
    }

    /// Looks up a name, and returns the slot of its head, the name and the inode number.
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
        self.remove(dir, slot, inode)
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
        self.remove(dir, slot, inode)
    }

    fn remove(&mut self, dir: InodeNumber, slot: u32, inode: InodeNumber) -> Result<()> {
        let leaving = self.unlinked_file(inode)?;
        self.remove_entries(dir, slot)?;
        self.drop_unlinked(leaving);
        self.touch(dir)
    }

    /// Returns what must be known of a file before its name is removed.
    pub(super) fn unlinked_file(&self, inode: InodeNumber) -> Result<UnlinkedFile<F>> {
        let record = self.volume.record(inode)?;
        record.check_removable()?;
        let chain = self.volume.chain_of(&record)?;
        Ok(UnlinkedFile {
            inode,
            record,
            chain,
        })
    }

    /// Deletes a file whose name has been removed; if the file is open, keeps it without a name.
    pub(super) fn drop_unlinked(&mut self, file: UnlinkedFile<F>) {
        if self.holds.contains(file.inode) {
            self.volume.numbers.unlink(file.inode);
            self.volume.nameless.insert(file.inode, file.record);
            return;
        }
        self.volume.numbers.remove(file.inode);
        if file.record.is_directory() {
            self.volume.forget_directory(file.inode);
        }
        self.free_all(&file.chain);
    }

    /// Updates the modification time of a directory.
    pub(super) fn touch(&mut self, dir: InodeNumber) -> Result<()> {
        if dir == ROOT {
            return Ok(());
        }
        let mut record = self.volume.record(dir)?;
        record.set_modified(self.now());
        self.put_record(dir, &record)
    }
}

/// A file that is about to lose its name.
#[derive(Debug)]
pub(super) struct UnlinkedFile<F: Format> {
    inode: InodeNumber,
    record: F::Record,
    chain: Arc<Chain>,
}
