//! Which files the kernel knows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{FsWrite, InodeNumber};

/// Threads that answer at once seldom meet in one of so many parts.
const PARTS: usize = 64;

/// How often each file was told to the kernel and not yet forgotten. A file among them is held: it
/// may be open, whether or not it has a name.
#[derive(Debug)]
pub(super) struct References {
    parts: Box<[Mutex<Counts>]>,
}

type Counts = HashMap<InodeNumber, u64>;

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
        let count = counts.entry(inode).or_insert(0);
        *count += 1;
        if *count == 1 {
            // With the lock: who comes next may take it for held.
            fs.hold(inode);
        }
    }

    /// When the kernel has forgotten a file so often.
    pub(super) fn forget(&self, fs: &dyn FsWrite, inode: InodeNumber, times: u64) {
        let mut counts = self.part(inode);
        let Some(count) = counts.get_mut(&inode) else {
            return;
        };
        *count = count.saturating_sub(times);
        if *count > 0 {
            return;
        }
        counts.remove(&inode);
        // Without the lock: a large file takes a while to go. Holds are counted, so one that is
        // taken anew meanwhile stays.
        drop(counts);
        release(fs, inode);
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
