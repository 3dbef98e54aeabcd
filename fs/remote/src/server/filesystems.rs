//! The mounted filesystems.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Result};

use super::machine::Served;

/// The maximum number of mounted filesystems.
const MAX_FILESYSTEMS: usize = 256;

/// The mounted filesystems by number.
#[derive(Debug, Default)]
pub(super) struct Filesystems {
    state: Mutex<FilesystemTable>,
}

#[derive(Debug, Default)]
struct FilesystemTable {
    last: u32,
    mounted: BTreeMap<u32, Arc<MountedFs>>,
}

impl Filesystems {
    fn state(&self) -> MutexGuard<'_, FilesystemTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a filesystem. Returns its number.
    pub(super) fn add(&self, fs: Arc<dyn Served>) -> Result<u32> {
        let mut state = self.state();
        let number = state.last.checked_add(1);
        let number = number.filter(|_| state.mounted.len() < MAX_FILESYSTEMS);
        let number = number.ok_or(Error::new(ErrorKind::Busy, "too many mounted filesystems"))?;
        state.last = number;
        state.mounted.insert(number, Arc::new(MountedFs::new(fs)));
        Ok(number)
    }

    pub(super) fn get(&self, number: u32) -> Result<Arc<MountedFs>> {
        let found = self.state().mounted.get(&number).cloned();
        found.ok_or_else(not_mounted)
    }

    /// Unmounts a filesystem after the calls in progress have ended.
    pub(super) fn unmount(&self, number: u32) -> Result<()> {
        let found = self.state().mounted.remove(&number);
        found.ok_or_else(not_mounted)?.close()
    }

    /// Unmounts all filesystems. Returns the first error.
    pub(super) fn unmount_all(&self) -> Result<()> {
        let all = std::mem::take(&mut self.state().mounted);
        // The last one mounted is unmounted first.
        let closed = all.into_values().rev().map(|fs| fs.close());
        closed.fold(Ok(()), Result::and)
    }
}

fn not_mounted() -> Error {
    Error::new(ErrorKind::NotFound, "no such filesystem is mounted")
}

/// A mounted filesystem.
#[derive(Debug)]
pub(super) struct MountedFs {
    /// The filesystem; calls lock it for reading, unmounting takes it.
    fs: RwLock<Option<Arc<dyn Served>>>,
    /// The files that lost their last name and are held for the client, each once.
    kept: Mutex<HashSet<InodeNumber>>,
    /// The lock for operations that remove a name: the answer says which file had it, so the name
    /// must not change meanwhile.
    names: Mutex<()>,
}

impl MountedFs {
    fn new(fs: Arc<dyn Served>) -> Self {
        Self {
            fs: RwLock::new(Some(fs)),
            kept: Mutex::default(),
            names: Mutex::default(),
        }
    }

    /// Returns the filesystem, which is not unmounted while the guard is held.
    pub(super) fn open(&self) -> OpenFilesystem<'_> {
        OpenFilesystem(self.fs.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn names(&self) -> MutexGuard<'_, ()> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_files(&self) -> MutexGuard<'_, HashSet<InodeNumber>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a hold that was just made. A second hold on the same file is released.
    pub(super) fn keep_file(&self, fs: &dyn Served, inode: InodeNumber) -> Result<()> {
        if self.kept_files().insert(inode) {
            return Ok(());
        }
        fs.release(inode)
    }

    /// Releases the file if it is held for the client.
    pub(super) fn release(&self, fs: &dyn Served, inode: InodeNumber) -> Result<()> {
        if self.kept_files().remove(&inode) {
            return fs.release(inode);
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let fs = self
            .fs
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(fs) = fs else { return Ok(()) };
        let kept = std::mem::take(&mut *self.kept_files());
        for inode in kept {
            fs.release(inode)?;
        }
        fs.close()
    }
}

/// The guard that [`MountedFs::open`] returns.
pub(super) struct OpenFilesystem<'f>(RwLockReadGuard<'f, Option<Arc<dyn Served>>>);

impl OpenFilesystem<'_> {
    pub(super) fn fs(&self) -> Result<&dyn Served> {
        self.0.as_deref().ok_or_else(not_mounted)
    }
}
