//! A negative cache for directories that were created through this client. A program that creates a
//! file looks up its name first, and each look-up is a round trip.
//!
//! A directory that was just created is empty, and every name in it is added through this client.
//! Names are stored as hashes and never removed, so the cache can only prove that a name does *not*
//! exist.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::InodeNumber;

/// The maximum number of names, about 16 MiB. Above it the cache is emptied and starts again with
/// directories that are created later.
const NAMES_MAX: usize = 1 << 20;

/// The kinds of filesystems in which two ASCII names can mean the same file only if they are equal
/// up to case (XFS, ext4 and f2fs may be case-insensitive). Windows filesystems have second, short
/// names.
const CACHED_KINDS: [&str; 4] = ["btrfs", "ext4", "f2fs", "xfs"];

/// The longest name that all these kinds allow, in bytes.
const NAME_MAX: usize = 255;

/// The names of directories that were created through this client.
#[derive(Debug)]
pub(super) struct NegativeCache {
    is_kept: bool,
    hasher: RandomState,
    state: Mutex<CachedNames>,
}

#[derive(Debug, Default)]
struct CachedNames {
    dirs: HashMap<InodeNumber, HashSet<u64>>,
    count: usize,
    /// The number of names that were added to directories that are not in the cache.
    names_elsewhere: u64,
}

/// The time before the creation of a directory, by `CachedNames::names_elsewhere`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CreationTime(u64);

impl NegativeCache {
    /// Creates a cache for a filesystem of this kind, as the kernel names it.
    pub(super) fn new(kind: &str) -> Self {
        Self {
            is_kept: CACHED_KINDS.contains(&kind),
            hasher: RandomState::new(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, CachedNames> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a hash that is the same for all cases of a name; `None` if the name may equal
    /// another one in other ways.
    fn hash(&self, name: &[u8]) -> Option<u64> {
        // A name that is too long has its own error.
        let is_plain = name.is_ascii() && name.len() <= NAME_MAX && !matches!(name, b"." | b"..");
        is_plain.then(|| self.hasher.hash_one(name.to_ascii_lowercase()))
    }

    /// Returns the time before a directory is created.
    pub(super) fn creation_time(&self) -> CreationTime {
        CreationTime(self.state().names_elsewhere)
    }

    /// Records a new directory as empty, unless a name was added meanwhile to a directory that is
    /// not in the cache: it may be this one.
    pub(super) fn add_new_dir(&self, before: CreationTime, dir: InodeNumber) {
        if !self.is_kept {
            return;
        }
        let mut state = self.state();
        forget(&mut state, dir);
        if state.names_elsewhere == before.0 {
            state.dirs.insert(dir, HashSet::new());
        }
    }

    /// Removes a directory that was deleted, or whose inode number another file has now.
    pub(super) fn remove(&self, dir: InodeNumber) {
        if self.is_kept {
            forget(&mut self.state(), dir);
        }
    }

    /// Records that `dir` may get this name; called before the request.
    pub(super) fn add_name(&self, dir: InodeNumber, name: &[u8]) {
        if !self.is_kept {
            return;
        }
        let hash = self.hash(name);
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(names) = state.dirs.get_mut(&dir) else {
            state.names_elsewhere = state.names_elsewhere.wrapping_add(1);
            return;
        };
        match hash {
            Some(hash) if names.insert(hash) => state.count = state.count.saturating_add(1),
            Some(_) => {}
            None => forget(state, dir),
        }
        if state.count > NAMES_MAX {
            state.dirs.clear();
            state.count = 0;
        }
    }

    /// Returns true if it is certain that `dir` has no such name.
    pub(super) fn is_absent(&self, dir: InodeNumber, name: &[u8]) -> bool {
        if !self.is_kept {
            return false;
        }
        let Some(hash) = self.hash(name) else {
            return false;
        };
        let state = self.state();
        state
            .dirs
            .get(&dir)
            .is_some_and(|names| !names.contains(&hash))
    }
}

fn forget(state: &mut CachedNames, dir: InodeNumber) {
    if let Some(names) = state.dirs.remove(&dir) {
        state.count = state.count.saturating_sub(names.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: InodeNumber = InodeNumber(7);

    #[test]
    fn only_directories_that_were_made_here_are_known() {
        let cache = NegativeCache::new("xfs");
        assert!(!cache.is_absent(DIR, b"file"));
        cache.add_new_dir(cache.creation_time(), DIR);
        assert!(cache.is_absent(DIR, b"file"));
        assert!(!cache.is_absent(InodeNumber(8), b"file"));
        cache.add_name(DIR, b"file");
        assert!(!cache.is_absent(DIR, b"file"));
        assert!(cache.is_absent(DIR, b"other"));
        cache.remove(DIR);
        assert!(!cache.is_absent(DIR, b"other"));
    }

    #[test]
    fn spellings_that_may_mean_the_same_are_asked_for() {
        let cache = NegativeCache::new("ext4");
        cache.add_new_dir(cache.creation_time(), DIR);
        cache.add_name(DIR, b"File");
        let long = [b'n'; 256];
        for name in [&b"fILE"[..], b".", b"..", "\u{212a}".as_bytes(), &long] {
            assert!(!cache.is_absent(DIR, name), "{name:?}");
        }
        // This name may be folded to any other one.
        cache.add_name(DIR, "\u{212a}".as_bytes());
        assert!(!cache.is_absent(DIR, b"other"));
    }

    #[test]
    fn kinds_with_other_rules_are_always_asked() {
        let cache = NegativeCache::new("vfat");
        cache.add_new_dir(cache.creation_time(), DIR);
        assert!(!cache.is_absent(DIR, b"LONGNA~1"));
    }

    #[test]
    fn a_directory_made_anew_is_empty_again() {
        let cache = NegativeCache::new("btrfs");
        cache.add_new_dir(cache.creation_time(), DIR);
        cache.add_name(DIR, b"file");
        cache.add_new_dir(cache.creation_time(), DIR);
        assert!(cache.is_absent(DIR, b"file"));
        assert_eq!(cache.state().count, 0);
    }

    #[test]
    fn who_puts_something_into_it_before_it_is_known_is_not_overlooked() {
        let cache = NegativeCache::new("xfs");
        let before = cache.creation_time();
        cache.add_name(DIR, b"file");
        cache.add_new_dir(before, DIR);
        assert!(!cache.is_absent(DIR, b"file"));
    }
}
