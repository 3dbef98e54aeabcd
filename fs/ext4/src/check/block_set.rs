//! Sets of clusters of the whole filesystem, by block group.
//!
//! Most groups are empty, full or have few runs. The others have one bit for each cluster, so the
//! contents of an image cannot make a set larger than that.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use super::group_set::GroupSet;
use super::window::Window;
use crate::allocator::{BitRun, Geometry};
use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::Result;

/// A set of clusters. Threads may change it at the same time.
#[derive(Debug)]
pub(super) struct BlockSet {
    geometry: Geometry,
    groups: Vec<Mutex<GroupSet>>,
    /// The groups that the set stores, if it does not store all.
    window: Option<Window>,
}

/// The result of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overlap {
    /// The number of clusters that were in the set before.
    pub(super) clusters: u64,
    /// The first block of the first such cluster.
    pub(super) first: Option<FsBlock>,
}

impl Overlap {
    const NONE: Self = Self {
        clusters: 0,
        first: None,
    };
}

impl BlockSet {
    pub(super) fn new(geometry: Geometry, budget: &Budget) -> Result<Self> {
        let groups = index(geometry.groups);
        budget.take::<Mutex<GroupSet>>(groups)?;
        let groups = std::iter::repeat_with(Mutex::default).take(groups);
        Ok(Self {
            geometry,
            groups: groups.collect(),
            window: None,
        })
    }

    /// Returns a set that stores the members of as many groups as a part of the budget allows. The
    /// members of other groups are dropped when they are inserted.
    pub(super) fn windowed(geometry: Geometry, budget: &Budget) -> Result<Self> {
        let window = Window::new(geometry.groups, budget)?;
        Ok(Self {
            window: Some(window),
            ..Self::new(geometry, budget)?
        })
    }

    /// Inserts the clusters of a run of blocks that is within the filesystem. Those that are in the
    /// set already are inserted into `twice`.
    pub(super) fn insert(
        &self,
        first: FsBlock,
        len_blocks: u64,
        budget: &Budget,
        twice: Option<&Self>,
    ) -> Result<Overlap> {
        let mut overlap = Overlap::NONE;
        let Some(parts) = self.geometry.parts(first, len_blocks) else {
            return Ok(overlap);
        };
        let mut present = Vec::new();
        for (group, run) in parts {
            self.insert_run(group, run, budget, &mut present)?;
            for run in present.drain(..) {
                self.add_overlap(&mut overlap, group, run);
                if let Some(twice) = twice {
                    twice.insert_run(group, run, budget, &mut Vec::new())?;
                }
            }
        }
        Ok(overlap)
    }

    /// Inserts a run of clusters of a group, and appends those that were in the set before.
    fn insert_run(
        &self,
        group: u32,
        run: BitRun,
        budget: &Budget,
        present: &mut Vec<BitRun>,
    ) -> Result<()> {
        let Some(mut set) = self.group(group) else {
            return Ok(());
        };
        // A window shrinks before it locks the group that leaves it.
        if self
            .window
            .as_ref()
            .is_some_and(|window| !window.covers(group))
        {
            return Ok(());
        }
        let before = set.heap_bytes();
        set.insert(run, self.geometry.clusters_in(group), present);
        let after = set.heap_bytes();
        drop(set);
        if before == after {
            return Ok(());
        }
        if let Some(window) = &self.window {
            return window.resize(before, after, budget, |group| self.clear_group(group));
        }
        budget.give_back(before);
        budget.take_bytes(after)
    }

    /// Returns the part of a run of blocks that is in the set.
    pub(super) fn within(&self, first: FsBlock, len_blocks: u64) -> Overlap {
        let mut overlap = Overlap::NONE;
        for (group, run) in self.geometry.parts(first, len_blocks).into_iter().flatten() {
            if let Some(set) = self.group(group) {
                for run in set.within(run) {
                    self.add_overlap(&mut overlap, group, run);
                }
            }
        }
        overlap
    }

    fn add_overlap(&self, overlap: &mut Overlap, group: u32, run: BitRun) {
        overlap.clusters = overlap.clusters.saturating_add(u64::from(run.len));
        let first = self.geometry.block_of(group, run.start);
        overlap.first = overlap.first.or(Some(first));
    }

    /// Returns the groups that the set stores.
    pub(super) fn stored(&self) -> Range<u32> {
        let all = 0..self.geometry.groups;
        self.window.as_ref().map_or(all, Window::groups)
    }

    /// Forgets the members in the stored groups, but not their numbers, and stores the groups after
    /// them. These are empty then. Returns false if there are none.
    pub(super) fn store_next(&self) -> bool {
        let Some(window) = &self.window else {
            return false;
        };
        let stored = window.groups();
        for group in stored {
            if let Some(mut set) = self.group(group) {
                set.forget_members();
            }
        }
        let next = window.move_on(self.geometry.groups);
        for group in next.clone() {
            self.clear_group(group);
        }
        !next.is_empty()
    }

    /// Returns the number of clusters of a group that are in the set.
    pub(super) fn count(&self, group: u32) -> u32 {
        self.group(group).map_or(0, |set| set.count)
    }

    /// Returns the bits of a group, in words of a bitmap.
    pub(super) fn words(&self, group: u32) -> Vec<u64> {
        let len = self.geometry.clusters_in(group);
        self.group(group)
            .map_or_else(Vec::new, |set| set.to_words(len))
    }

    /// Removes all clusters.
    pub(super) fn clear(&self, budget: &Budget) {
        for group in 0..self.geometry.groups {
            budget.give_back(self.clear_group(group));
        }
    }

    /// Removes the clusters of a group. Returns the memory that they had.
    fn clear_group(&self, group: u32) -> u64 {
        self.group(group).map_or(0, |mut set| {
            let bytes = set.heap_bytes();
            *set = GroupSet::default();
            bytes
        })
    }

    /// Returns true if the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        (0..self.geometry.groups).all(|group| self.count(group) == 0)
    }

    fn group(&self, group: u32) -> Option<MutexGuard<'_, GroupSet>> {
        let set = self.groups.get(index(group))?;
        Some(set.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
