//! Listings of directories that may change meanwhile.
//!
//! A listing shows the directory as it was when the listing began: each entry appears once and none
//! is left out, whatever is created, removed or renamed meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{FileType, FsRead, InodeNumber, Result};
use fuser::FileHandle;

use super::super::directory::is_dot;
use super::changes::Changes;

/// The number of files that are announced to the driver at once; about five replies.
const BATCH_LEN: usize = 1024;

/// The open directories, each with its snapshot.
#[derive(Debug, Default)]
pub(super) struct OpenDirectories {
    last: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Mutex<Snapshot>>>>,
}

impl OpenDirectories {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mutex<Snapshot>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self) -> FileHandle {
        let handle = self.last.fetch_add(1, Ordering::Relaxed);
        self.open().insert(handle, Arc::default());
        FileHandle(handle)
    }

    pub(super) fn get(&self, handle: FileHandle) -> Option<Arc<Mutex<Snapshot>>> {
        self.open().get(&handle.0).cloned()
    }

    pub(super) fn remove(&self, handle: FileHandle) {
        self.open().remove(&handle.0);
    }
}

/// The entries of a directory at one time, in two allocations.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// The value of [`Changes`] before the snapshot was taken; `None` before the first snapshot.
    changes: Option<u64>,
    /// The index of the first entry that was not announced.
    announced: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    inode: InodeNumber,
    name_end: usize,
    file_type: Option<FileType>,
}

/// An entry of a [`Snapshot`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<'s> {
    pub(super) name: &'s [u8],
    pub(super) inode: InodeNumber,
    pub(super) file_type: Option<FileType>,
    /// The cookie of the entry that follows.
    pub(super) cookie: u64,
}

impl Snapshot {
    /// Takes a new snapshot; called at the beginning of a listing.
    pub(super) fn refresh(
        &mut self,
        fs: &dyn FsRead,
        dir: InodeNumber,
        changes: &Changes,
    ) -> Result<()> {
        let now = changes.of(dir);
        if self.changes == Some(now) {
            return Ok(());
        }
        let mut taken = Self {
            changes: Some(now),
            ..Self::default()
        };
        for entry in fs.read_dir(dir, 0)? {
            let entry = entry?;
            taken.names.extend_from_slice(&entry.name);
            taken.entries.push(Entry {
                inode: entry.inode,
                name_end: taken.names.len(),
                file_type: entry.file_type,
            });
        }
        *self = taken;
        Ok(())
    }

    /// Returns true if names in the directory may have changed since the snapshot.
    pub(super) fn is_stale(&self, dir: InodeNumber, changes: &Changes) -> bool {
        self.changes != Some(changes.of(dir))
    }

    /// Returns the entry at a cookie; 0 is the beginning.
    pub(super) fn at(&self, cookie: u64) -> Option<Listed<'_>> {
        let index = usize::try_from(cookie).ok()?;
        let entry = self.entries.get(index)?;
        let begin = index.checked_sub(1).map_or(0, |i| self.entries[i].name_end);
        Some(Listed {
            name: &self.names[begin..entry.name_end],
            inode: entry.inode,
            file_type: entry.file_type,
            cookie: cookie + 1,
        })
    }

    /// Announces to the driver which files will be requested next.
    pub(super) fn announce(&mut self, fs: &dyn FsRead, cookie: u64) {
        let Ok(from) = usize::try_from(cookie) else {
            return;
        };
        if cookie == 0 {
            self.announced = 0;
        }
        if from < self.announced || from >= self.entries.len() {
            return;
        }
        let to = self.entries.len().min(from + BATCH_LEN);
        let named = (from..to).filter_map(|index| self.at(index as u64));
        let files = named.filter(|entry| !is_dot(entry.name));
        let inodes: Vec<InodeNumber> = files.map(|entry| entry.inode).collect();
        self.announced = to;
        if inodes.len() > 1 {
            fs.will_need_metadata(&inodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::{MemoryFs, WritableMemoryFs};
    use diskfs_vfs::{FsWrite, NewAttributes, NewKind};

    use super::*;

    fn names(snapshot: &Snapshot) -> Vec<&[u8]> {
        let entries = (0..).map_while(|cookie| snapshot.at(cookie));
        entries.map(|entry| entry.name).collect()
    }

    #[test]
    fn a_listing_is_of_its_beginning() {
        let fs = WritableMemoryFs::new();
        let (root, changes) = (fs.root(), Changes::new());
        let make = |name: &[u8]| {
            let attributes = NewAttributes::for_root(0o644);
            fs.create(root, name, NewKind::Regular, &attributes)
                .unwrap();
            changes.note(root);
        };
        make(b"a");
        let mut snapshot = Snapshot::default();
        snapshot.refresh(&fs, root, &changes).unwrap();
        make(b"b");
        assert_eq!(names(&snapshot), [&b"."[..], b"..", b"a"]);
        assert!(snapshot.is_stale(root, &changes));
        snapshot.refresh(&fs, root, &changes).unwrap();
        assert_eq!(names(&snapshot), [&b"."[..], b"..", b"a", b"b"]);
        assert!(!snapshot.is_stale(root, &changes));
    }

    #[test]
    fn each_file_is_announced_once() {
        let mut fs = MemoryFs::new();
        for n in 0..2000 {
            fs.file(&format!("/{n}"), b"");
        }
        let mut snapshot = Snapshot::default();
        snapshot.refresh(&fs, fs.root(), &Changes::new()).unwrap();
        for cookie in [0, 190, 1023, 1030, 1500, 2001, 2002] {
            snapshot.announce(&fs, cookie);
        }
        let lens: Vec<_> = fs.take_metadata_hints().iter().map(Vec::len).collect();
        assert_eq!(lens, [1022, 972]);
    }
}
