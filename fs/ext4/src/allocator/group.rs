//! What is known of one block group.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::group_descriptor::GroupDescriptor;

use super::bits::{self, Run};
use super::geometry::Geometry;

/// A group, behind its lock.
#[derive(Debug)]
pub(super) struct Group {
    /// As it is now; the block that holds it follows within the same handle.
    pub(super) descriptor: GroupDescriptor,
    /// No inode before this one is free.
    pub(super) first_free_inode: u32,
    /// Clusters that are free by the bitmap, and that nobody may have yet.
    pub(super) held: Option<Box<Held>>,
}

/// Clusters that were freed by a transaction that is not durable. If they were used again at once, a
/// crash could bring back the file that had them, with another's contents.
#[derive(Debug)]
pub(super) struct Held {
    words: Box<[u64]>,
    count: u32,
    /// The longest run of free clusters that there will be around one of these.
    longest: u32,
}

impl Group {
    pub(super) fn held_words(&self) -> Option<&[u64]> {
        self.held.as_deref().map(|held| &*held.words)
    }

    /// Holds a run, which is within a run of `longest` free clusters.
    pub(super) fn hold(&mut self, geometry: &Geometry, run: Run, longest: u32) {
        let held = self.held.get_or_insert_with(|| {
            Box::new(Held {
                words: vec![0; geometry.held_words()].into(),
                count: 0,
                longest: 0,
            })
        });
        bits::hold(&mut held.words, run);
        held.count = held.count.saturating_add(run.len);
        held.longest = held.longest.max(longest);
    }

    /// Lets go of a run. Returns how many of it were held, and how long a free run may be now.
    pub(super) fn release(&mut self, run: Run) -> (u32, u32) {
        let Some(held) = &mut self.held else {
            return (0, 0);
        };
        let count = bits::release(&mut held.words, run);
        held.count = held.count.saturating_sub(count);
        let longest = held.longest;
        if held.count == 0 {
            self.held = None;
        }
        (count, longest)
    }
}

/// What of a group can be asked without its lock, to find one that is worth taking it. May be out of
/// date by what others do at this moment.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// No run of free clusters is longer.
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

    /// Follows the descriptor; whoever calls has the group's lock.
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
