//! Metadata that came along with other answers.
//!
//! It is coherent because every change goes through this client. What was asked for before a change
//! was done, and came after it, is not kept.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{InodeNumber, Metadata};
use quick_cache::unsync::Cache;

/// Threads that meet at once seldom meet in one of so many parts.
const PARTS: usize = 64;

/// How many a part keeps: 128 Ki in all, some 25 MiB. FUSE asks for the metadata of a listing when
/// it has the whole of it, so a large directory should fit.
const PART_MAX: usize = 2048;

/// Metadata by inode.
#[derive(Debug)]
pub(super) struct AttributeCache {
    /// Counts the changes.
    clock: AtomicU64,
    parts: Box<[Mutex<Part>]>,
}

struct Part {
    known: Cache<InodeNumber, Metadata>,
    /// The last change of a file that belongs here.
    changed: u64,
}

impl Part {
    fn new() -> Self {
        Self {
            known: Cache::new(PART_MAX),
            changed: 0,
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("known", &self.known.len())
            .field("changed", &self.changed)
            .finish()
    }
}

/// When something was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked(u64);

impl AttributeCache {
    pub(super) fn new() -> Self {
        Self {
            clock: AtomicU64::new(0),
            parts: (0..PARTS).map(|_| Mutex::new(Part::new())).collect(),
        }
    }

    fn part(&self, inode: InodeNumber) -> Option<MutexGuard<'_, Part>> {
        let parts = u64::try_from(self.parts.len()).unwrap_or(1);
        let index = usize::try_from(inode.0.checked_rem(parts)?).ok()?;
        let part = self.parts.get(index)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn get(&self, inode: InodeNumber) -> Option<Metadata> {
        self.part(inode)?.known.get(&inode).cloned()
    }

    /// Before something is asked for, of which the answer is to be kept.
    pub(super) fn asked(&self) -> Asked {
        Asked(self.clock.load(Ordering::SeqCst))
    }

    /// Keeps what was answered, unless it may be from before a change.
    pub(super) fn keep(&self, asked: Asked, metadata: &Metadata) {
        let Some(mut part) = self.part(metadata.inode) else {
            return;
        };
        if part.changed > asked.0 {
            return;
        }
        part.known.insert(metadata.inode, metadata.clone());
    }

    /// When a change of a file is done, whether or not it failed. Returns from when on what is asked
    /// for knows of it.
    pub(super) fn changed(&self, inode: InodeNumber) {
        if let Some(mut part) = self.part(inode) {
            part.known.remove(&inode);
            // With the part's lock: a later change has a later time.
            part.changed = self.clock.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        }
    }

    /// The same when the answer had the new metadata. It is kept if nothing else happened since
    /// the change was asked for.
    pub(super) fn changed_to(&self, asked: Asked, metadata: &Metadata) {
        let Some(mut part) = self.part(metadata.inode) else {
            return;
        };
        let is_alone = part.changed <= asked.0;
        part.known.remove(&metadata.inode);
        part.changed = self.clock.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        if is_alone {
            part.known.insert(metadata.inode, metadata.clone());
        }
    }
}
