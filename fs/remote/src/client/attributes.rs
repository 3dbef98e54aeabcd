//! A cache of the metadata that answers contain.
//!
//! The cache is coherent because every change goes through this client. Metadata that was requested
//! before a change and arrives after it is not stored.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{InodeNumber, Metadata};
use quick_cache::unsync::Cache;

/// The number of locks: so many that concurrent threads seldom contend for one.
const PARTS: usize = 64;

/// The number of files per part: 128 Ki in total, about 25 MiB. After a listing, FUSE asks for the
/// metadata of all its files, so a large directory should fit.
const PART_MAX: usize = 2048;

/// Metadata by inode number.
#[derive(Debug)]
pub(super) struct AttributeCache {
    /// The number of changes so far.
    clock: AtomicU64,
    parts: Box<[Mutex<CachePart>]>,
}

struct CachePart {
    known: Cache<InodeNumber, Metadata>,
    /// The time of the last change of a file in this part, by `clock`.
    changed: u64,
}

impl CachePart {
    fn new() -> Self {
        Self {
            known: Cache::new(PART_MAX),
            changed: 0,
        }
    }
}

impl fmt::Debug for CachePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachePart")
            .field("known", &self.known.len())
            .field("changed", &self.changed)
            .finish()
    }
}

/// The time of a request, by `AttributeCache::clock`.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTime(u64);

impl AttributeCache {
    pub(super) fn new() -> Self {
        Self {
            clock: AtomicU64::new(0),
            parts: (0..PARTS).map(|_| Mutex::new(CachePart::new())).collect(),
        }
    }

    fn part(&self, inode: InodeNumber) -> Option<MutexGuard<'_, CachePart>> {
        let parts = u64::try_from(self.parts.len()).unwrap_or(1);
        let index = usize::try_from(inode.0.checked_rem(parts)?).ok()?;
        let part = self.parts.get(index)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn get(&self, inode: InodeNumber) -> Option<Metadata> {
        self.part(inode)?.known.get(&inode).cloned()
    }

    /// Returns the current time, before a request whose answer will be stored.
    pub(super) fn request_time(&self) -> RequestTime {
        RequestTime(self.clock.load(Ordering::SeqCst))
    }

    /// Stores metadata, unless it may be older than a change.
    pub(super) fn keep(&self, asked: RequestTime, metadata: &Metadata) {
        let Some(mut part) = self.part(metadata.inode) else {
            return;
        };
        if part.changed > asked.0 {
            return;
        }
        part.known.insert(metadata.inode, metadata.clone());
    }

    /// Returns true if this file was not changed since a request.
    pub(super) fn is_unchanged(&self, asked: RequestTime, inode: InodeNumber) -> bool {
        self.part(inode).is_some_and(|part| part.changed <= asked.0)
    }

    /// Drops a file's metadata after a change, whether or not it failed. Metadata that was
    /// requested before is not stored later.
    pub(super) fn changed(&self, inode: InodeNumber) {
        if let Some(mut part) = self.part(inode) {
            part.known.remove(&inode);
            // Under the part's lock, so that a later change has a later time.
            part.changed = self.clock.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        }
    }

    /// Replaces a file's metadata after a change whose answer contains it. It is stored only if no
    /// other change of this part happened since the request.
    pub(super) fn changed_to(&self, asked: RequestTime, metadata: &Metadata) {
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
