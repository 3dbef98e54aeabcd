//! Which files are held.
//!
//! The agent is told nothing of a hold: it keeps what loses its last name, says so, and is told when
//! the last hold ends.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::InodeNumber;

/// Holds, and what the agent keeps for them.
#[derive(Debug, Default)]
pub(super) struct Holds {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: HashMap<InodeNumber, u64>,
    /// What the agent keeps until it is told otherwise.
    kept: HashSet<InodeNumber>,
}

/// Whether the agent is to be told that a file is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the agent keeps the file until it is told"]
pub(super) enum Tell {
    Release,
    Nothing,
}

impl Holds {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything at all is held.
    pub(super) fn are_any(&self) -> bool {
        !self.state().counts.is_empty()
    }

    pub(super) fn hold(&self, inode: InodeNumber) {
        let mut state = self.state();
        let count = state.counts.entry(inode).or_insert(0);
        *count = count.saturating_add(1);
    }

    pub(super) fn release(&self, inode: InodeNumber) -> Tell {
        let mut state = self.state();
        let Some(count) = state.counts.get_mut(&inode) else {
            return Tell::Nothing;
        };
        *count = count.saturating_sub(1);
        if *count > 0 {
            return Tell::Nothing;
        }
        state.counts.remove(&inode);
        if state.kept.remove(&inode) {
            Tell::Release
        } else {
            Tell::Nothing
        }
    }

    /// When the agent says that it keeps a file.
    pub(super) fn kept(&self, inode: InodeNumber) -> Tell {
        let mut state = self.state();
        if !state.counts.contains_key(&inode) {
            return Tell::Release;
        }
        state.kept.insert(inode);
        Tell::Nothing
    }
}
