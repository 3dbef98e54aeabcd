//! What opens the filesystems that no driver here does.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{FsRead, FsWrite};

use crate::Result;

/// Opens filesystems that no driver of diskfs does: those of other kinds, and those with features that
/// the driver of their kind refuses as *unsupported*. The microVM is one.
///
/// It is asked after the drivers, and never when one of them found a filesystem corrupt or could not
/// read its device.
pub trait Fallback: Debug + Send + Sync {
    /// Whether it could open a filesystem of that kind, as `blkid` names it, if what it needs is there.
    fn takes(&self, kind: &str) -> bool;

    /// Opens a filesystem for reading. Nothing is written to `device`.
    ///
    /// # Errors
    /// `Unsupported` when what it needs is not there, with what that is.
    fn open(&self, wanted: &Wanted<'_>, device: Arc<dyn BlockRead>) -> Result<Arc<dyn FsRead>>;

    /// Opens a filesystem for writing. Nothing is on `device` any more when the filesystem is closed,
    /// or dropped.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_for_writing(
        &self,
        wanted: &Wanted<'_>,
        device: Arc<dyn BlockWrite>,
    ) -> Result<Arc<dyn FsWrite>>;
}

/// What is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The volume's name, for messages.
    pub volume: &'a str,
    /// The kind of filesystem, as `blkid` names it: `xfs`.
    pub kind: &'a str,
    /// The disk that the volume is on.
    pub disk: DiskId,
}

/// Tells the disks apart that a process has opened: volumes with the same one come from whoever made that disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DiskId(u64);

impl DiskId {
    /// One that there was not before.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a disk's volumes fall back to.
#[derive(Debug, Clone)]
pub(super) struct FallbackOfDisk {
    pub(super) fallback: Arc<dyn Fallback>,
    pub(super) disk: DiskId,
}

/// What was opened for reading, kept for who asks next: a fallback takes its time, and whether a system is
/// on a filesystem, and which is meant, is asked before anybody reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Option<Arc<dyn FsRead>>>>);

impl Kept {
    /// What is kept, or what `open` opens.
    ///
    /// # Errors
    /// As `open`.
    pub(super) fn get_or(
        &self,
        open: impl FnOnce() -> Result<Arc<dyn FsRead>>,
    ) -> Result<Arc<dyn FsRead>> {
        // Locked while it is opened: whoever asks meanwhile wants the same.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fs) = &*kept {
            return Ok(Arc::clone(fs));
        }
        let fs = open()?;
        *kept = Some(Arc::clone(&fs));
        Ok(fs)
    }

    /// Lets go of it, before it is written beside it.
    pub(super) fn forget(&self) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(kept); // Not under the lock: it may be the last one.
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::*;

    #[test]
    fn it_is_opened_once_until_it_is_forgotten() {
        let kept = Kept::default();
        let mut opened = 0;
        let mut get = |kept: &Kept| {
            let open = || {
                opened += 1;
                Ok(Arc::new(MemoryFs::new()) as Arc<dyn FsRead>)
            };
            kept.get_or(open).map(|_| ()).unwrap();
            opened
        };
        assert_eq!((get(&kept), get(&kept.clone())), (1, 1));
        kept.forget();
        assert_eq!(get(&kept), 2);
    }
}
