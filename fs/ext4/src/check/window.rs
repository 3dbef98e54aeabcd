//! The window of a set of clusters: the block groups that the set stores. If their members need too
//! much memory, the last groups leave the window, and a further scan claims theirs.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::budget::Budget;
use crate::error::Result;

/// The part of the budget that the members may use: a quarter.
const PART_BITS: u32 = 2;

/// A window.
#[derive(Debug)]
pub(super) struct Window {
    limit_bytes: u64,
    stored_bytes: AtomicU64,
    start: AtomicU32,
    end: AtomicU32,
    /// Held while groups leave the window.
    shrinking: Mutex<()>,
}

impl Window {
    /// Returns a window of all groups, and takes the memory for their members.
    pub(super) fn new(groups: u32, budget: &Budget) -> Result<Self> {
        let limit_bytes = budget.limit_bytes().wrapping_shr(PART_BITS);
        budget.take_bytes(limit_bytes)?;
        Ok(Self {
            limit_bytes,
            stored_bytes: AtomicU64::new(0),
            start: AtomicU32::new(0),
            end: AtomicU32::new(groups),
            shrinking: Mutex::default(),
        })
    }

    /// Returns the groups.
    pub(super) fn groups(&self) -> Range<u32> {
        self.start.load(Ordering::Acquire)..self.end.load(Ordering::Acquire)
    }

    /// Returns true if a group is in the window.
    pub(super) fn covers(&self, group: u32) -> bool {
        self.groups().contains(&group)
    }

    /// Notes that the members of a group need other memory. If the window needs too much, its last
    /// groups leave it: `clear` removes the members of a group, and returns their memory.
    ///
    /// # Errors
    /// `Invalid` if one group needs too much.
    pub(super) fn resize(
        &self,
        before: u64,
        after: u64,
        budget: &Budget,
        clear: impl Fn(u32) -> u64,
    ) -> Result<()> {
        // The memory of each group was added before it is subtracted.
        self.stored_bytes.fetch_add(after, Ordering::Relaxed);
        let stored = self.stored_bytes.fetch_sub(before, Ordering::Relaxed);
        if stored.saturating_sub(before) <= self.limit_bytes {
            return Ok(());
        }
        let _shrinking = self
            .shrinking
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while self.stored_bytes.load(Ordering::Relaxed) > self.limit_bytes {
            let groups = self.groups();
            let last = groups.end.saturating_sub(1);
            if last <= groups.start {
                return Err(budget.exceeded());
            }
            self.end.store(last, Ordering::Release);
            self.stored_bytes.fetch_sub(clear(last), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Moves the window to the groups after it, whose members the caller removes. Returns them.
    pub(super) fn move_on(&self, groups: u32) -> Range<u32> {
        let start = self.end.load(Ordering::Acquire);
        self.start.store(start, Ordering::Release);
        self.end.store(groups, Ordering::Release);
        self.stored_bytes.store(0, Ordering::Relaxed);
        start..groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_groups_leave_a_window_that_is_too_large() {
        let budget = Budget::new(400);
        let window = Window::new(10, &budget).unwrap();
        window.resize(0, 60, &budget, |_| 0).unwrap();
        assert_eq!(window.groups(), 0..10);
        // Groups 9 and 8 have 0 and 30 bytes.
        let clear = |group: u32| if group == 8 { 30 } else { 0 };
        window.resize(0, 50, &budget, clear).unwrap();
        assert_eq!(window.groups(), 0..8);
        assert_eq!(window.move_on(10), 8..10);
        assert!(!window.covers(7) && window.covers(8));
        assert!(window.resize(0, 101, &budget, |_| 0).is_err());
    }
}
