//! The inode numbers of files in a filesystem.

use std::collections::{BTreeMap, HashMap};

use diskfs_vfs::{ErrorKind, FsRead, InodeNumber};

use crate::operation::{FileId, Operation};

/// The existing files, with a name or held.
#[derive(Debug, Clone, Default)]
pub struct Files {
    numbers: BTreeMap<FileId, InodeNumber>,
    ids: HashMap<InodeNumber, FileId>,
}

impl Files {
    /// Returns a map that has only the root.
    pub fn of_root(fs: &dyn FsRead) -> Self {
        let mut files = Self::default();
        files.add(FileId::ROOT, fs.root());
        files
    }

    /// Adds a file.
    pub fn add(&mut self, id: FileId, inode: InodeNumber) {
        self.numbers.insert(id, inode);
        self.ids.insert(inode, id);
    }

    /// Removes a file.
    pub fn remove(&mut self, id: FileId) {
        if let Some(inode) = self.numbers.remove(&id) {
            self.ids.remove(&inode);
        }
    }

    /// Returns the inode number of a file; `None` if it does not exist.
    pub fn number(&self, id: FileId) -> Option<InodeNumber> {
        self.numbers.get(&id).copied()
    }

    /// Returns the file with an inode number.
    pub fn id(&self, inode: InodeNumber) -> Option<FileId> {
        self.ids.get(&inode).copied()
    }

    /// Returns all files.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.numbers.keys().copied()
    }

    /// Returns the file that a name refers to.
    pub fn look_up(&self, fs: &dyn FsRead, dir: FileId, name: &[u8]) -> Option<FileId> {
        self.id(fs.lookup(self.number(dir)?, name).ok()?)
    }

    /// Returns the files that an operation may change: its arguments, and the files that its names
    /// refer to. Call it before the operation.
    pub fn touched(&self, fs: &dyn FsRead, operation: &Operation) -> Vec<FileId> {
        let mut ids = operation.files();
        for (dir, name) in operation.names() {
            ids.extend(self.look_up(fs, dir, name));
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Removes those of `ids` that no longer exist.
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
