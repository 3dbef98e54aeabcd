//! Which names there are not, in directories that were made here: whoever makes a file asks for its name first,
//! and each question is a round trip.
//!
//! A directory that was just made is empty, and every name that it gets goes through this client. Names are
//! kept as hashes and never taken out again, so all that is ever known is that there is *no* such name.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::InodeNumber;

/// How many names are kept in all: some 16 MiB. Then it begins anew, with directories made from then on.
const MOST_NAMES: usize = 1 << 20;

/// Kinds where two names of ASCII letters mean the same file only if they differ in nothing but their case, at
/// most (XFS, ext4 and f2fs may be told to fold it). Those of Windows have second, short names.
const KINDS: [&str; 4] = ["btrfs", "ext4", "f2fs", "xfs"];

/// The longest name that all these kinds have, in bytes.
const LONGEST: usize = 255;

/// The names of directories that were made here.
#[derive(Debug)]
pub(super) struct Names {
    is_kept: bool,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    dirs: HashMap<InodeNumber, HashSet<u64>>,
    count: usize,
    /// Counts names that came to directories of which nothing is known.
    elsewhere: u64,
}

/// When a directory was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before(u64);

impl Names {
    /// Of a filesystem of this kind, as the kernel calls it.
    pub(super) fn new(kind: &str) -> Self {
        Self {
            is_kept: KINDS.contains(&kind),
            hasher: RandomState::new(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for all spellings; `None` for a name that may be the same as another in more ways.
    fn hash(&self, name: &[u8]) -> Option<u64> {
        // What is too long is an error of its own.
        let is_plain = name.is_ascii() && name.len() <= LONGEST && !matches!(name, b"." | b"..");
        is_plain.then(|| self.hasher.hash_one(name.to_ascii_lowercase()))
    }

    /// Before a directory is made.
    pub(super) fn before(&self) -> Before {
        Before(self.state().elsewhere)
    }

    /// It was made, and is empty, unless somebody who looked it up has been quicker to put something into it.
    pub(super) fn made(&self, before: Before, dir: InodeNumber) {
        if !self.is_kept {
            return;
        }
        let mut state = self.state();
        forget(&mut state, dir);
        if state.elsewhere == before.0 {
            state.dirs.insert(dir, HashSet::new());
        }
    }

    /// The directory is gone, or its number is another file's.
    pub(super) fn gone(&self, dir: InodeNumber) {
        if self.is_kept {
            forget(&mut self.state(), dir);
        }
    }

    /// Before `dir` may get this name.
    pub(super) fn may_come(&self, dir: InodeNumber, name: &[u8]) {
        if !self.is_kept {
            return;
        }
        let hash = self.hash(name);
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(names) = state.dirs.get_mut(&dir) else {
            state.elsewhere = state.elsewhere.wrapping_add(1);
            return;
        };
        match hash {
            Some(hash) if names.insert(hash) => state.count = state.count.saturating_add(1),
            Some(_) => {}
            None => forget(state, dir),
        }
        if state.count > MOST_NAMES {
            state.dirs.clear();
            state.count = 0;
        }
    }

    /// Whether `dir` has no such name for certain.
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

fn forget(state: &mut State, dir: InodeNumber) {
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
        let names = Names::new("xfs");
        assert!(!names.is_absent(DIR, b"file"));
        names.made(names.before(), DIR);
        assert!(names.is_absent(DIR, b"file"));
        assert!(!names.is_absent(InodeNumber(8), b"file"));
        names.may_come(DIR, b"file");
        assert!(!names.is_absent(DIR, b"file"));
        assert!(names.is_absent(DIR, b"other"));
        names.gone(DIR);
        assert!(!names.is_absent(DIR, b"other"));
    }

    #[test]
    fn spellings_that_may_mean_the_same_are_asked_for() {
        let names = Names::new("ext4");
        names.made(names.before(), DIR);
        names.may_come(DIR, b"File");
        let long = [b'n'; 256];
        for name in [&b"fILE"[..], b".", b"..", "\u{212a}".as_bytes(), &long] {
            assert!(!names.is_absent(DIR, name), "{name:?}");
        }
        // It may be folded to any other.
        names.may_come(DIR, "\u{212a}".as_bytes());
        assert!(!names.is_absent(DIR, b"other"));
    }

    #[test]
    fn kinds_with_other_rules_are_always_asked() {
        let names = Names::new("vfat");
        names.made(names.before(), DIR);
        assert!(!names.is_absent(DIR, b"LONGNA~1"));
    }

    #[test]
    fn a_directory_made_anew_is_empty_again() {
        let names = Names::new("btrfs");
        names.made(names.before(), DIR);
        names.may_come(DIR, b"file");
        names.made(names.before(), DIR);
        assert!(names.is_absent(DIR, b"file"));
        assert_eq!(names.state().count, 0);
    }

    #[test]
    fn who_puts_something_into_it_before_it_is_known_is_not_overlooked() {
        let names = Names::new("xfs");
        let before = names.before();
        names.may_come(DIR, b"file");
        names.made(before, DIR);
        assert!(!names.is_absent(DIR, b"file"));
    }
}
