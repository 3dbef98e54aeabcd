//! Sets of clusters of the whole filesystem, by block group.
//!
//! Most groups are empty, full or have few runs. The others have one bit for each cluster, so the
//! contents of an image cannot make a set larger than that.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use super::group_set::GroupSet;
use crate::allocator::Geometry;
use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::Result;

/// A set of clusters. Threads may change it at the same time.
#[derive(Debug)]
pub(super) struct BlockSet {
    geometry: Geometry,
    groups: Vec<Mutex<GroupSet>>,
}

/// The result of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overlap {
    /// The number of clusters that were in the set before.
    pub(super) clusters: u64,
    /// The first block of the first such cluster.
    pub(super) first: Option<FsBlock>,
}

impl BlockSet {
    pub(super) fn new(geometry: Geometry, budget: &Budget) -> Result<Self> {
        let groups = index(geometry.groups);
        budget.take::<Mutex<GroupSet>>(groups)?;
        let groups = std::iter::repeat_with(Mutex::default).take(groups);
        Ok(Self {
            geometry,
            groups: groups.collect(),
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
        let mut overlap = Overlap {
            clusters: 0,
            first: None,
        };
        let Some(parts) = self.geometry.parts(first, len_blocks) else {
            return Ok(overlap);
        };
        let mut present = Vec::new();
        for (group, run) in parts {
            if let Some(mut set) = self.group(group) {
                set.insert(run, self.geometry.clusters_in(group), budget, &mut present)?;
            }
            for run in present.drain(..) {
                overlap.clusters = overlap.clusters.saturating_add(u64::from(run.len));
                overlap.first = overlap
                    .first
                    .or_else(|| Some(self.geometry.block_of(group, run.start)));
                if let Some(twice) = twice
                    && let Some(mut set) = twice.group(group)
                {
                    let len = self.geometry.clusters_in(group);
                    set.insert(run, len, budget, &mut Vec::new())?;
                }
            }
        }
        Ok(overlap)
    }

    /// Returns the part of a run of blocks that is in the set.
    pub(super) fn within(&self, first: FsBlock, len_blocks: u64) -> Overlap {
        let mut overlap = Overlap {
            clusters: 0,
            first: None,
        };
        for (group, run) in self.geometry.parts(first, len_blocks).into_iter().flatten() {
            if let Some(set) = self.group(group) {
                for run in set.within(run) {
                    overlap.clusters = overlap.clusters.saturating_add(u64::from(run.len));
                    overlap.first = overlap
                        .first
                        .or_else(|| Some(self.geometry.block_of(group, run.start)));
                }
            }
        }
        overlap
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
    pub(super) fn clear(&self) {
        for group in 0..self.geometry.groups {
            if let Some(mut set) = self.group(group) {
                *set = GroupSet::default();
            }
        }
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
