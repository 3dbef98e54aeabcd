//! Which files the kernel knows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diskfs_vfs::{FsWrite, InodeNumber};

/// Threads that answer at once seldom meet in one of so many parts.
const PARTS: usize = 64;

/// How often each file was told to the kernel and not yet forgotten. A file among them is held: it
/// may be open, whether or not it has a name.
#[derive(Debug)]
pub(super) struct References {
    parts: Box<[Mutex<Counts>]>,
}

type Counts = HashMap<InodeNumber, Known>;

/// For how long after the last read or write through the kernel's cache somebody is taken to go on with it: the
/// pages beside what a direct write wrote are left to him.
const STILL_READING: Duration = Duration::from_secs(1);

/// What the kernel has of a file.
#[derive(Debug, Default)]
struct Known {
    times: u64,
    /// When a page of it may have got into the kernel's cache last; `None` for never.
    pages: Option<Instant>,
}

/// The pages that the kernel may have, and that are not what a direct write wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StalePages {
    None,
    Range { offset: u64, len: u64 },
    All,
}

impl StalePages {
    /// As the kernel is told: an offset, and a length, of which 0 is up to the end.
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

    /// Before a file is told to the kernel.
    pub(super) fn add(&self, fs: &dyn FsWrite, inode: InodeNumber) {
        let mut counts = self.part(inode);
        let known = counts.entry(inode).or_default();
        known.times += 1;
        if known.times == 1 {
            // With the lock: who comes next may take it for held.
            fs.hold(inode);
        }
    }

    /// When the kernel has forgotten a file so often.
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
        // Without the lock: a large file takes a while to go. Holds are counted, so one that is
        // taken anew meanwhile stays.
        drop(counts);
        release(fs, inode);
    }

    /// Before a file is read or written through the kernel's cache. Before, so that a direct write which comes too
    /// late for that finds the note.
    pub(super) fn note_pages(&self, inode: InodeNumber) {
        if let Some(known) = self.part(inode).get_mut(&inode) {
            known.pages = Some(Instant::now());
        }
    }

    /// After a direct write: which pages have to go.
    pub(super) fn stale_pages(&self, inode: InodeNumber, offset: u64, len: u64) -> StalePages {
        let mut counts = self.part(inode);
        let Some(known) = counts.get_mut(&inode) else {
            return StalePages::None;
        };
        match known.pages {
            None => StalePages::None,
            Some(last) if last.elapsed() < STILL_READING => StalePages::Range { offset, len },
            // The next one then costs nothing.
            Some(_) => {
                known.pages = None;
                StalePages::All
            }
        }
    }

    /// When the kernel is gone.
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
        // Nobody waits for an answer, and it has no name any more.
        tracing::warn!("file without a name was not removed: {error}");
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
