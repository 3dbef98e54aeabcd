//! The state of one block group.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::group_descriptor::GroupDescriptor;

use super::bits::{self, Run};
use super::geometry::Geometry;

/// The state of a group that its lock protects.
#[derive(Debug)]
pub(super) struct Group {
    /// The current descriptor; the same handle also changes the block that holds it.
    pub(super) descriptor: GroupDescriptor,
    /// A lower bound: no inode before this one is free.
    pub(super) first_free_inode: u32,
    /// The clusters that are free in the bitmap, but that nobody, or only one file, may allocate.
    held: Option<Box<HeldClusters>>,
    /// An upper bound of the length of runs that releases made allocatable since the summary was
    /// last updated.
    released_run_max: u32,
}

/// The held clusters of a group. They were freed by a transaction that is not durable (reusing them
/// at once could, after a crash, bring back a deleted file with the contents of another), or they
/// are preallocated for growing files.
#[derive(Debug)]
struct HeldClusters {
    words: Box<[u64]>,
    count: u32,
    /// The longest run of free clusters that will exist around any of the held ones.
    longest: u32,
    /// The preallocated runs, oldest first.
    preallocated: VecDeque<Run>,
}

/// The maximum number of growing files per group that have preallocated clusters.
const PREALLOCATED_MAX: usize = 16;

impl Group {
    pub(super) const fn new(descriptor: GroupDescriptor) -> Self {
        Self {
            descriptor,
            first_free_inode: 0,
            held: None,
            released_run_max: 0,
        }
    }

    pub(super) fn held_words(&self) -> Option<&[u64]> {
        self.held.as_deref().map(|held| &*held.words)
    }

    /// Returns the upper bound of the length of runs that were released since the last call.
    pub(super) const fn take_released_run_max(&mut self) -> u32 {
        std::mem::replace(&mut self.released_run_max, 0)
    }

    fn hold_run(&mut self, geometry: &Geometry, run: Run, longest: u32) -> &mut HeldClusters {
        let held = self.held.get_or_insert_with(|| {
            Box::new(HeldClusters {
                words: vec![0; geometry.held_words()].into(),
                count: 0,
                longest: 0,
                preallocated: VecDeque::new(),
            })
        });
        bits::hold(&mut held.words, run);
        held.count = held.count.saturating_add(run.len);
        held.longest = held.longest.max(longest);
        held
    }

    /// Holds a freed run, which is part of a run of `longest` free clusters.
    pub(super) fn hold(&mut self, geometry: &Geometry, run: Run, longest: u32) {
        self.hold_run(geometry, run, longest);
    }

    /// Releases a run. Returns how many of its clusters were held.
    pub(super) fn release(&mut self, run: Run) -> u32 {
        let Some(held) = &mut self.held else {
            return 0;
        };
        self.released_run_max = self.released_run_max.max(held.longest);
        let count = bits::release(&mut held.words, run);
        held.count = held.count.saturating_sub(count);
        if held.count == 0 {
            self.held = None;
        }
        count
    }

    /// Preallocates a run for the request that has its first cluster as the goal. The run is free,
    /// and so are the clusters after it, `longest` in all.
    pub(super) fn preallocate(&mut self, geometry: &Geometry, run: Run, longest: u32) {
        if self.preallocated_count() >= PREALLOCATED_MAX {
            self.release_oldest_preallocated();
        }
        let held = self.hold_run(geometry, run, longest);
        held.preallocated.push_back(run);
    }

    fn preallocated_count(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.preallocated.len())
    }

    fn release_oldest_preallocated(&mut self) {
        let preallocated = self
            .held
            .as_mut()
            .and_then(|held| held.preallocated.pop_front());
        if let Some(run) = preallocated {
            self.release(run);
        }
    }

    /// Releases the run that is preallocated from cluster `start` on, to the request that asks for
    /// it.
    pub(super) fn release_preallocated(&mut self, start: u32) {
        let preallocated = self.held.as_mut().and_then(|held| {
            let nth = held
                .preallocated
                .iter()
                .position(|run| run.start == start)?;
            held.preallocated.remove(nth)
        });
        if let Some(run) = preallocated {
            self.release(run);
        }
    }

    /// Releases all preallocated runs.
    pub(super) fn release_all_preallocated(&mut self) {
        while self.preallocated_count() > 0 {
            self.release_oldest_preallocated();
        }
    }
}

/// The facts about a group that can be read without its lock, to decide whether taking the lock is
/// worthwhile. Concurrent changes can make them out of date.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// An upper bound of the length of runs of free clusters.
    longest_run: AtomicU32,
    free_clusters: AtomicU32,
    free_inodes: AtomicU32,
    used_directories: AtomicU32,
}

impl Summary {
    pub(super) fn new(descriptor: &GroupDescriptor) -> Self {
        let summary = Self::default();
        summary.update(descriptor);
        summary.set_longest_run(descriptor.free_clusters);
        summary
    }

    /// Updates the summary from the descriptor; the caller holds the group's lock.
    pub(super) fn update(&self, descriptor: &GroupDescriptor) {
        let set = |field: &AtomicU32, value| field.store(value, Ordering::Relaxed);
        set(&self.free_clusters, descriptor.free_clusters);
        set(&self.free_inodes, descriptor.free_inodes);
        set(&self.used_directories, descriptor.used_directories);
    }

    pub(super) fn set_longest_run(&self, clusters: u32) {
        self.longest_run.store(clusters, Ordering::Relaxed);
    }

    pub(super) fn raise_longest_run(&self, clusters: u32) {
        self.longest_run.fetch_max(clusters, Ordering::Relaxed);
    }

    pub(super) fn longest_run(&self) -> u32 {
        self.longest_run.load(Ordering::Relaxed)
    }

    pub(super) fn free_clusters(&self) -> u32 {
        self.free_clusters.load(Ordering::Relaxed)
    }

    pub(super) fn free_inodes(&self) -> u32 {
        self.free_inodes.load(Ordering::Relaxed)
    }

    pub(super) fn used_directories(&self) -> u32 {
        self.used_directories.load(Ordering::Relaxed)
    }
}
