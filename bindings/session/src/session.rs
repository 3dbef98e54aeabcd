//! An open disk with its filesystems.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, ThreadId};

use diskfs::{Disk, Error, ErrorKind, Result};

use crate::open_file::OpenFiles;
use crate::trees::Trees;
use crate::{Access, FileMode, OpenFile, SessionOptions, Tree};

/// An open disk with its filesystems, which any number of threads can use at once.
///
/// Changes are durable after [`sync`](Self::sync) and [`close`](Self::close), and earlier only if
/// memory or the filesystem's journal is full. Dropping the session closes it, too, but can't
/// report an error.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    is_writable: bool,
    state: RwLock<Option<OpenDisk>>,
    /// The thread that uses the disk alone, whose callbacks would wait for themselves.
    alone: Mutex<Option<ThreadId>>,
}

/// A disk that is not closed yet.
#[derive(Debug)]
pub(crate) struct OpenDisk {
    pub(crate) disk: Disk,
    trees: Mutex<Trees>,
    files: Mutex<OpenFiles>,
}

impl Session {
    /// Opens the image at `path`.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Corrupt`, `Unsupported`; `Locked` if another process uses the image.
    pub fn open(path: impl AsRef<Path>, options: &SessionOptions) -> Result<Self> {
        let path = path.as_ref();
        let open = OpenDisk {
            disk: options.open(path)?,
            trees: Mutex::default(),
            files: Mutex::default(),
        };
        Ok(Self {
            path: path.to_owned(),
            is_writable: options.access != Access::ReadOnly,
            state: RwLock::new(Some(open)),
            alone: Mutex::default(),
        })
    }

    /// Returns the path of the image, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the disk was opened for writing.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Returns true after [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        if self.check_not_in_callback().is_err() {
            return false;
        }
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.is_none()
    }

    /// Returns the tree on a volume, by any of the volume's names. Without a name that is the tree
    /// of the operating system, else the only filesystem.
    ///
    /// On a disk that is open for writing, a tree that shares a volume with it is closed first: then
    /// files that are open in the other tree can no longer be written.
    ///
    /// # Errors
    /// `NotFound`, `Ambiguous`; `Denied` for an encrypted volume without a key; `Invalid` after
    /// [`close`](Self::close); the errors of opening a filesystem.
    pub fn tree(&self, volume: Option<&str>) -> Result<Tree> {
        self.with_disk(|open| {
            let mut trees = open.trees();
            trees.tree(&open.disk, volume, self.is_writable)
        })
    }

    /// Opens a regular file of a tree.
    ///
    /// # Errors
    /// As [`tree`](Self::tree), and the errors of looking up and creating the file.
    pub fn open_file(&self, volume: Option<&str>, path: &[u8], mode: FileMode) -> Result<OpenFile> {
        self.with_disk(|open| {
            let tree = open.trees().tree(&open.disk, volume, self.is_writable)?;
            let file = OpenFile::open(&tree, path, mode)?;
            open.files().add(&file);
            Ok(file)
        })
    }

    /// Makes all changes so far durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn sync(&self) -> Result<()> {
        self.with_disk(|open| open.trees().sync())
    }

    /// Ends writing and closes the disk and its files. When it returns without an error, all changes are durable.
    /// A second call does nothing.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: then the last changes may be lost.
    pub fn close(&self) -> Result<()> {
        self.check_not_in_callback()?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match state.take() {
            Some(open) => open.close(),
            None => Ok(()),
        }
    }

    /// Calls `act` with the open disk.
    pub(crate) fn with_disk<T>(&self, act: impl FnOnce(&OpenDisk) -> Result<T>) -> Result<T> {
        self.check_not_in_callback()?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        act(state.as_ref().ok_or_else(|| self.closed())?)
    }

    /// Calls `act` with the open disk while no other thread uses it, after all files and trees were
    /// closed.
    /// The disk is closed if `act` returns true.
    pub(crate) fn with_disk_alone<T>(
        &self,
        act: impl FnOnce(&Disk) -> Result<(T, bool)>,
    ) -> Result<T> {
        self.check_not_in_callback()?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let open = state.as_ref().ok_or_else(|| self.closed())?;
        open.files().close();
        open.trees().close()?;
        *self.alone() = Some(thread::current().id());
        let _end = EndAlone(&self.alone);
        let (result, is_last) = act(&open.disk)?;
        if is_last && let Some(open) = state.take() {
            open.close()?;
        }
        Ok(result)
    }

    fn alone(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails on the thread that uses the disk alone: it is in a callback.
    fn check_not_in_callback(&self) -> Result<()> {
        if *self.alone() != Some(thread::current().id()) {
            return Ok(());
        }
        let reason = "the disk cannot be used in a callback of its own deployment";
        Err(Error::new(ErrorKind::Invalid, reason).in_file(&self.path))
    }

    fn closed(&self) -> Error {
        Error::new(ErrorKind::Invalid, "the disk is closed").in_file(&self.path)
    }
}

impl OpenDisk {
    /// Returns the open trees. After a panic in another thread they are still valid.
    pub(crate) fn trees(&self) -> MutexGuard<'_, Trees> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open files.
    fn files(&self) -> MutexGuard<'_, OpenFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(self) -> Result<()> {
        self.files().close();
        let closed = self.trees().close();
        closed.and(self.disk.close())
    }
}

/// Ends the use of a disk by one thread alone, also after a panic.
struct EndAlone<'a>(&'a Mutex<Option<ThreadId>>);

impl Drop for EndAlone<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
