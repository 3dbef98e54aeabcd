//! Which file has which number in one filesystem.

use std::collections::{BTreeMap, HashMap};

use diskfs_vfs::{ErrorKind, FsRead, InodeNumber};

use crate::operation::{FileId, Operation};

/// The files that are alive, named or held.
#[derive(Debug, Clone, Default)]
pub struct Files {
    numbers: BTreeMap<FileId, InodeNumber>,
    ids: HashMap<InodeNumber, FileId>,
}

impl Files {
    /// With the root alone.
    pub fn of_root(fs: &dyn FsRead) -> Self {
        let mut files = Self::default();
        files.add(FileId::ROOT, fs.root());
        files
    }

    /// Remembers a file.
    pub fn add(&mut self, id: FileId, inode: InodeNumber) {
        self.numbers.insert(id, inode);
        self.ids.insert(inode, id);
    }

    /// Forgets a file.
    pub fn remove(&mut self, id: FileId) {
        if let Some(inode) = self.numbers.remove(&id) {
            self.ids.remove(&inode);
        }
    }

    /// The number of a file that is alive.
    pub fn number(&self, id: FileId) -> Option<InodeNumber> {
        self.numbers.get(&id).copied()
    }

    /// The file of that number.
    pub fn id(&self, inode: InodeNumber) -> Option<FileId> {
        self.ids.get(&inode).copied()
    }

    /// All that are alive.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.numbers.keys().copied()
    }

    /// What a name names.
    pub fn look_up(&self, fs: &dyn FsRead, dir: FileId, name: &[u8]) -> Option<FileId> {
        self.id(fs.lookup(self.number(dir)?, name).ok()?)
    }

    /// The files that an operation may change: those that it names, and what its names name. Asked
    /// before it is done.
    pub fn touched(&self, fs: &dyn FsRead, operation: &Operation) -> Vec<FileId> {
        let mut ids = operation.files();
        for (dir, name) in operation.names() {
            ids.extend(self.look_up(fs, dir, name));
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Forgets those of `ids` that are no more.
    pub fn forget_gone(&mut self, fs: &dyn FsRead, ids: &[FileId]) -> Vec<FileId> {
        let gone = |id: &FileId| {
            self.number(*id).is_some_and(|inode| {
                fs.metadata(inode)
                    .is_err_and(|error| error.kind() == ErrorKind::NotFound)
            })
        };
        let gone: Vec<_> = ids.iter().copied().filter(gone).collect();
        for id in &gone {
            self.remove(*id);
        }
        gone
    }
}
