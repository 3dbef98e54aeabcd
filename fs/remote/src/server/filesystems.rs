//! The filesystems that are mounted.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Result};

use super::machine::Served;

/// How many may be mounted at once.
const MAX_FILESYSTEMS: usize = 256;

/// All that are mounted, by number.
#[derive(Debug, Default)]
pub(super) struct Filesystems {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u32,
    mounted: BTreeMap<u32, Arc<MountedFs>>,
}

impl Filesystems {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one up, and gives it its number.
    pub(super) fn add(&self, fs: Arc<dyn Served>) -> Result<u32> {
        let mut state = self.state();
        let number = state.last.checked_add(1);
        let number = number.filter(|_| state.mounted.len() < MAX_FILESYSTEMS);
        let number = number.ok_or(Error::new(
            ErrorKind::Busy,
            "too many filesystems are mounted",
        ))?;
        state.last = number;
        state.mounted.insert(number, Arc::new(MountedFs::new(fs)));
        Ok(number)
    }

    pub(super) fn get(&self, number: u32) -> Result<Arc<MountedFs>> {
        let found = self.state().mounted.get(&number).cloned();
        found.ok_or_else(not_mounted)
    }

    /// Unmounts one, when what was begun in it is done.
    pub(super) fn unmount(&self, number: u32) -> Result<()> {
        let found = self.state().mounted.remove(&number);
        found.ok_or_else(not_mounted)?.close()
    }

    /// Unmounts all; tells the first error.
    pub(super) fn unmount_all(&self) -> Result<()> {
        let all = std::mem::take(&mut self.state().mounted);
        // What was mounted last goes first.
        let closed = all.into_values().rev().map(|fs| fs.close());
        closed.fold(Ok(()), Result::and)
    }
}

fn not_mounted() -> Error {
    Error::new(ErrorKind::NotFound, "no such filesystem is mounted")
}

/// One that is mounted.
#[derive(Debug)]
pub(super) struct MountedFs {
    /// Calls hold it to read; unmounting takes it.
    fs: RwLock<Option<Arc<dyn Served>>>,
    /// Files that lost their last name and are held for the client, each once.
    kept: Mutex<HashSet<InodeNumber>>,
    /// What a name means must stay while it is taken, for the answer tells what that was.
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

    /// The filesystem, which is not unmounted as long as the guard is held.
    pub(super) fn open(&self) -> Open<'_> {
        Open(self.fs.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn names(&self) -> MutexGuard<'_, ()> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, HashSet<InodeNumber>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a hold that was just made. One is enough.
    pub(super) fn keep(&self, fs: &dyn Served, inode: InodeNumber) -> Result<()> {
        if self.kept().insert(inode) {
            return Ok(());
        }
        fs.release(inode)
    }

    /// Whether the file is held for the client.
    pub(super) fn release(&self, fs: &dyn Served, inode: InodeNumber) -> Result<()> {
        if self.kept().remove(&inode) {
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
        let kept = std::mem::take(&mut *self.kept());
        for inode in kept {
            fs.release(inode)?;
        }
        fs.close()
    }
}

/// See [`MountedFs::open`].
pub(super) struct Open<'f>(RwLockReadGuard<'f, Option<Arc<dyn Served>>>);

impl Open<'_> {
    pub(super) fn fs(&self) -> Result<&dyn Served> {
        self.0.as_deref().ok_or_else(not_mounted)
    }
}
