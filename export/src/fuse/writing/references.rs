//! Reference counts of the files that the kernel knows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diskfs_vfs::{FsWrite, InodeNumber};

/// The number of locks: so many that concurrent threads seldom contend for one.
const PARTS: usize = 64;

/// The lookup count of each file: how often it was reported to the kernel and not yet forgotten.
/// Such a file is held, since it may be open, with or without a name.
#[derive(Debug)]
pub(super) struct References {
    parts: Box<[Mutex<Counts>]>,
}

type Counts = HashMap<InodeNumber, Known>;

/// The time after a cached read or write for which a program is assumed to continue with the file:
/// meanwhile, only the pages in the range of a direct write are dropped.
const STILL_READING: Duration = Duration::from_secs(1);

/// The kernel's knowledge of a file.
#[derive(Debug, Default)]
struct Known {
    times: u64,
    /// The last time at which the kernel may have cached a page of the file; `None` if it never
    /// did.
    pages: Option<Instant>,
    /// True if a program can have mapped the file to change it.
    is_mappable: bool,
    /// True if the file is known to have no capabilities.
    lacks_capabilities: bool,
}

/// The pages in the kernel's cache that may be stale after a direct write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StalePages {
    None,
    Range { offset: u64, len: u64 },
    All,
}

impl StalePages {
    /// Returns the range for the notification: an offset and a length, where 0 means up to the end.
    pub(super) fn range(self) -> Option<(i64, i64)> {
        match self {
            Self::None => None,
            Self::All => Some((0, 0)),
            Self::Range { offset, len } => match (i64::try_from(offset), i64::try_from(len)) {
                (Ok(offset), Ok(len)) => Some((offset, len)),
                _ => Some((0, 0)),
            },
        }
    }
}

impl References {
    pub(super) fn new() -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
        }
    }

    fn part(&self, inode: InodeNumber) -> MutexGuard<'_, Counts> {
        // The remainder fits.
        let part = usize::try_from(inode.0 % PARTS as u64).unwrap_or_default();
        self.parts[part]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reference before a file is reported to the kernel.
    pub(super) fn add(&self, fs: &dyn FsWrite, inode: InodeNumber) {
        let mut counts = self.part(inode);
        let known = counts.entry(inode).or_default();
        known.times += 1;
        if known.times == 1 {
            // Hold the file under the lock: the next thread may rely on the hold once it sees the
            // count.
            fs.hold(inode);
        }
    }

    /// Removes references when the kernel has forgotten a file `times` times.
    pub(super) fn forget(&self, fs: &dyn FsWrite, inode: InodeNumber, times: u64) {
        let mut counts = self.part(inode);
        let Some(known) = counts.get_mut(&inode) else {
            return;
        };
        known.times = known.times.saturating_sub(times);
        if known.times > 0 {
            return;
        }
        counts.remove(&inode);
        // Release without the lock: removing a large file takes a while. The filesystem counts
        // holds, so a new hold that is taken meanwhile stays.
        drop(counts);
        release(fs, inode);
    }

    /// Records a read or write through the kernel's cache. It is called before that, so that a
    /// concurrent direct write sees the record.
    pub(super) fn note_pages(&self, inode: InodeNumber) {
        if let Some(known) = self.part(inode).get_mut(&inode) {
            known.pages = Some(Instant::now());
        }
    }

    /// Records that a file is opened for reading and writing, before the answer. A mapping outlives
    /// its handle, so this is true until the kernel forgets the file.
    pub(super) fn note_mappable(&self, inode: InodeNumber) {
        if let Some(known) = self.part(inode).get_mut(&inode) {
            known.is_mappable = true;
        }
    }

    pub(super) fn is_mappable(&self, inode: InodeNumber) -> bool {
        let counts = self.part(inode);
        counts.get(&inode).is_some_and(|known| known.is_mappable)
    }

    /// Records whether a file is known to have no capabilities.
    pub(super) fn note_lacks_capabilities(&self, inode: InodeNumber, lacks: bool) {
        if let Some(known) = self.part(inode).get_mut(&inode) {
            known.lacks_capabilities = lacks;
        }
    }

    pub(super) fn lacks_capabilities(&self, inode: InodeNumber) -> bool {
        let counts = self.part(inode);
        counts
            .get(&inode)
            .is_some_and(|known| known.lacks_capabilities)
    }

    /// Returns the pages that are stale after a direct write.
    pub(super) fn stale_pages(&self, inode: InodeNumber, offset: u64, len: u64) -> StalePages {
        let mut counts = self.part(inode);
        let Some(known) = counts.get_mut(&inode) else {
            return StalePages::None;
        };
        match known.pages {
            None => StalePages::None,
            Some(last) if last.elapsed() < STILL_READING => StalePages::Range { offset, len },
            // The whole file is dropped, so the next direct write costs nothing.
            Some(_) => {
                known.pages = None;
                StalePages::All
            }
        }
    }

    /// Removes all references after the connection has ended.
    pub(super) fn forget_all(&self, fs: &dyn FsWrite) {
        for part in &self.parts {
            let counts = std::mem::take(&mut *part.lock().unwrap_or_else(PoisonError::into_inner));
            for inode in counts.into_keys() {
                release(fs, inode);
            }
        }
    }
}

fn release(fs: &dyn FsWrite, inode: InodeNumber) {
    if let Err(error) = fs.release(inode) {
        // No request waits for this answer, and the file has no name any more.
        tracing::warn!("cannot remove a file without a name: {error}");
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::WritableMemoryFs;
    use diskfs_vfs::{FsRead, NewAttributes, NewKind};

    use super::*;

    #[test]
    fn a_file_is_held_from_the_first_to_the_last() {
        let fs = WritableMemoryFs::new();
        let attributes = NewAttributes::for_root(0o644);
        let f = fs
            .create(fs.root(), b"f", NewKind::Regular, &attributes)
            .unwrap();
        let references = References::new();
        references.add(&fs, f);
        references.add(&fs, f);
        fs.unlink(fs.root(), b"f").unwrap();
        assert_eq!(fs.held(), [(f, 1)]);
        references.forget(&fs, f, 1);
        assert!(fs.metadata(f).is_ok());
        references.forget(&fs, f, 1);
        assert!(fs.metadata(f).is_err());
        references.forget(&fs, f, 1);
    }

    #[test]
    fn direct_writes_drop_the_pages_that_there_may_be() {
        let fs = WritableMemoryFs::new();
        let (references, root) = (References::new(), fs.root());
        references.note_pages(root);
        assert_eq!(references.stale_pages(root, 7, 9), StalePages::None);
        references.add(&fs, root);
        assert_eq!(references.stale_pages(root, 7, 9), StalePages::None);
        references.note_pages(root);
        let range = StalePages::Range { offset: 7, len: 9 };
        for _ in 0..2 {
            assert_eq!(references.stale_pages(root, 7, 9), range);
        }
        let before = Instant::now().checked_sub(STILL_READING).unwrap();
        references.part(root).get_mut(&root).unwrap().pages = Some(before);
        assert_eq!(references.stale_pages(root, 7, 9), StalePages::All);
        assert_eq!(references.stale_pages(root, 7, 9), StalePages::None);
        assert_eq!(StalePages::All.range(), Some((0, 0)));
        assert_eq!(range.range(), Some((7, 9)));
    }

    #[test]
    fn nothing_stays_behind() {
        let fs = WritableMemoryFs::new();
        let references = References::new();
        let attributes = NewAttributes::for_root(0o644);
        for _ in 0..1000 {
            let f = fs.create_unnamed(fs.root(), &attributes).unwrap();
            references.add(&fs, f);
            fs.release(f).unwrap();
        }
        assert_eq!(fs.file_count(), 1001);
        references.forget_all(&fs);
        assert_eq!(fs.file_count(), 1);
        assert!(
            references
                .parts
                .iter()
                .all(|p| p.lock().unwrap().is_empty())
        );
    }
}
