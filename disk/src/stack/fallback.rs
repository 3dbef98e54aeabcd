//! The interface to code that opens the filesystems without a driver.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{FsRead, FsWrite};

use crate::Result;

/// A second way to open filesystems, for those that no driver of diskfs opens: other kinds, and
/// those with features that the driver of their kind refuses as *unsupported*. The microVM
/// implements it.
///
/// The fallback is used only after the drivers, and never if a driver found a filesystem corrupt or
/// could not read its device.
pub trait Fallback: Debug + Send + Sync {
    /// Returns true if the fallback supports this kind of filesystem, as `blkid` names it, provided
    /// that its requirements are installed.
    fn supports(&self, kind: &str) -> bool;

    /// Opens the filesystem on `devices` for reading: one device, or all devices of a filesystem
    /// that spans several. Nothing is written to them.
    ///
    /// # Errors
    /// `Unsupported` if a requirement of the fallback is missing, with its name.
    fn open(
        &self,
        wanted: &FallbackRequest<'_>,
        devices: Vec<Arc<dyn BlockRead>>,
    ) -> Result<Arc<dyn FsRead>>;

    /// Opens the filesystem on `devices` for writing. The fallback stops writing to them when the
    /// filesystem is closed or dropped.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_for_writing(
        &self,
        wanted: &FallbackRequest<'_>,
        devices: Vec<Arc<dyn BlockWrite>>,
    ) -> Result<Arc<dyn FsWrite>>;
}

/// The filesystem to open.
#[derive(Debug, Clone, Copy)]
pub struct FallbackRequest<'a> {
    /// The volume's name, for messages.
    pub volume: &'a str,
    /// The kind of filesystem, as `blkid` names it: `xfs`.
    pub kind: &'a str,
    /// The disk that the volume is on.
    pub disk: DiskId,
    /// The number of volumes of the disk whose filesystems the fallback supports, so that it can
    /// open all of them with one machine. It is only a hint.
    pub volumes_of_disk: usize,
}

/// The identity of a disk that the process has opened: volumes of one disk have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DiskId(u64);

impl DiskId {
    /// Returns a new identity, for a program that calls a [`Fallback`] itself.
    #[expect(
        clippy::new_without_default,
        reason = "each identity is a different one"
    )]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The filesystems that a fallback opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FallbackUse {
    /// The filesystems that no driver of diskfs opens.
    #[default]
    WithoutDriver,
    /// All filesystems, also those that a driver of diskfs opens.
    Always,
}

/// The fallback for the volumes of one disk.
#[derive(Debug, Clone)]
pub(super) struct FallbackOfDisk {
    pub(super) fallback: Arc<dyn Fallback>,
    pub(super) used: FallbackUse,
    pub(super) disk: DiskId,
}

/// A cache for a filesystem that is open for reading. Opening may take long (a microVM, a log to
/// replay), and the search for systems and the choice of a filesystem open it before anyone reads
/// files.
#[derive(Debug, Clone, Default)]
pub(super) struct CachedFilesystem(Arc<Mutex<Option<Arc<dyn FsRead>>>>);

impl CachedFilesystem {
    /// Returns the cached filesystem, or opens and caches it.
    ///
    /// # Errors
    /// The errors of `open`.
    pub(super) fn get_or(
        &self,
        open: impl FnOnce() -> Result<Arc<dyn FsRead>>,
    ) -> Result<Arc<dyn FsRead>> {
        // The lock is held while the filesystem is opened: concurrent callers wait for the same
        // one.
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fs) = &*cached {
            return Ok(Arc::clone(fs));
        }
        let fs = open()?;
        *cached = Some(Arc::clone(&fs));
        Ok(fs)
    }

    /// Returns the cached filesystem, if there is one.
    pub(super) fn get(&self) -> Option<Arc<dyn FsRead>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.clone()
    }

    /// Caches a filesystem.
    pub(super) fn set(&self, fs: &Arc<dyn FsRead>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some(Arc::clone(fs));
    }

    /// Drops the cached filesystem, before another one opens the volume for writing.
    pub(super) fn forget(&self) {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(cached); // Dropped outside of the lock: this may be the last reference.
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::*;

    #[test]
    fn it_is_opened_once_until_it_is_forgotten() {
        let cached = CachedFilesystem::default();
        let mut opened = 0;
        let mut get = |cached: &CachedFilesystem| {
            let open = || {
                opened += 1;
                Ok(Arc::new(MemoryFs::new()) as Arc<dyn FsRead>)
            };
            cached.get_or(open).map(|_| ()).unwrap();
            opened
        };
        assert_eq!((get(&cached), get(&cached.clone())), (1, 1));
        cached.forget();
        assert_eq!(get(&cached), 2);
    }
}
