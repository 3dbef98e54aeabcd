//! The contents of small files that were received.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use diskfs_vfs::InodeNumber;

/// The maximum of stored contents. Above it, the oldest are dropped.
const BYTES_MAX: usize = 2 << 20;
const FILES_MAX: usize = 4096;

/// Contents by inode number.
#[derive(Debug, Default)]
pub(super) struct Stored {
    contents: HashMap<InodeNumber, FileContents>,
    by_age: VecDeque<InodeNumber>,
    bytes: usize,
}

#[derive(Debug)]
struct FileContents {
    bytes: Arc<[u8]>,
    is_used: bool,
}

/// Says whether contents are used for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    First,
    Again,
}

impl Stored {
    pub(super) fn has(&self, inode: InodeNumber) -> bool {
        self.contents.contains_key(&inode)
    }

    pub(super) fn get(&mut self, inode: InodeNumber) -> Option<(Arc<[u8]>, Use)> {
        let found = self.contents.get_mut(&inode)?;
        let was_used = std::mem::replace(&mut found.is_used, true);
        let which = if was_used { Use::Again } else { Use::First };
        Some((Arc::clone(&found.bytes), which))
    }

    /// Stores contents. Returns the number of files that were dropped without having been used.
    pub(super) fn insert(&mut self, inode: InodeNumber, contents: &[u8]) -> usize {
        self.remove(inode);
        self.bytes = self.bytes.saturating_add(contents.len());
        let contents = FileContents {
            bytes: contents.into(),
            is_used: false,
        };
        self.contents.insert(inode, contents);
        self.by_age.push_back(inode);
        let mut unused = 0_usize;
        while self.bytes > BYTES_MAX || self.by_age.len() > FILES_MAX {
            let Some(oldest) = self.by_age.pop_front() else {
                break;
            };
            let was_unused = self.drop_contents(oldest).is_some_and(|old| !old.is_used);
            unused = unused.saturating_add(usize::from(was_unused));
        }
        unused
    }

    pub(super) fn remove(&mut self, inode: InodeNumber) {
        if self.drop_contents(inode).is_some() {
            self.by_age.retain(|&other| other != inode);
        }
    }

    fn drop_contents(&mut self, inode: InodeNumber) -> Option<FileContents> {
        let dropped = self.contents.remove(&inode)?;
        self.bytes = self.bytes.saturating_sub(dropped.bytes.len());
        Some(dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_contents_are_dropped() {
        let mut stored = Stored::default();
        let (old, new) = (InodeNumber(1), InodeNumber(2));
        assert_eq!(stored.insert(old, &[1; 10]), 0);
        assert_eq!(stored.get(old).map(|(_, which)| which), Some(Use::First));
        assert_eq!(stored.get(old).map(|(_, which)| which), Some(Use::Again));
        assert_eq!(
            stored.insert(new, &vec![2; BYTES_MAX]),
            0,
            "the old one was used"
        );
        assert!(!stored.has(old) && stored.has(new));
        assert_eq!(stored.insert(old, b"again"), 1);
        assert_eq!((stored.bytes, stored.by_age.len()), (5, 1));
        stored.remove(old);
        assert_eq!((stored.bytes, stored.by_age.len()), (0, 0));
        for number in 0..10_000 {
            stored.insert(InodeNumber(number), b"");
        }
        assert_eq!(stored.by_age.len(), FILES_MAX);
    }
}
