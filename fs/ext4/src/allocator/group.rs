//! What is known of one block group.

use std::collections::VecDeque;
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
    /// Clusters that are free by the bitmap, and that nobody may have, or not everybody.
    held: Option<Box<Held>>,
    /// How long a run may have become free by what was let go and not looked at yet.
    let_go: u32,
}

/// What was freed by a transaction that is not durable (if it were used again at once, a crash could
/// bring back the file that had it, with another's contents), and what is kept for files that grow.
#[derive(Debug)]
struct Held {
    words: Box<[u64]>,
    count: u32,
    /// The longest run of free clusters that there will be around any of these.
    longest: u32,
    /// What is kept, oldest first.
    kept: VecDeque<Run>,
}

/// How many files that grow have something kept for them, in each group.
const KEPT_MAX: usize = 16;

impl Group {
    pub(super) const fn new(descriptor: GroupDescriptor) -> Self {
        Self {
            descriptor,
            first_free_inode: 0,
            held: None,
            let_go: 0,
        }
    }

    pub(super) fn held_words(&self) -> Option<&[u64]> {
        self.held.as_deref().map(|held| &*held.words)
    }

    /// How long a run may have become free since this was asked last.
    pub(super) const fn take_let_go(&mut self) -> u32 {
        std::mem::replace(&mut self.let_go, 0)
    }

    fn hold_any(&mut self, geometry: &Geometry, run: Run, longest: u32) -> &mut Held {
        let held = self.held.get_or_insert_with(|| {
            Box::new(Held {
                words: vec![0; geometry.held_words()].into(),
                count: 0,
                longest: 0,
                kept: VecDeque::new(),
            })
        });
        bits::hold(&mut held.words, run);
        held.count = held.count.saturating_add(run.len);
        held.longest = held.longest.max(longest);
        held
    }

    /// Holds a run that was freed, which is within a run of `longest` free clusters.
    pub(super) fn hold(&mut self, geometry: &Geometry, run: Run, longest: u32) {
        self.hold_any(geometry, run, longest);
    }

    /// Lets go of a run. Returns how many of it were held.
    pub(super) fn release(&mut self, run: Run) -> u32 {
        let Some(held) = &mut self.held else {
            return 0;
        };
        self.let_go = self.let_go.max(held.longest);
        let count = bits::release(&mut held.words, run);
        held.count = held.count.saturating_sub(count);
        if held.count == 0 {
            self.held = None;
        }
        count
    }

    /// Keeps a run for who asks for it by its first cluster; it is free, and so is what is behind it
    /// up to `longest` clusters.
    pub(super) fn keep(&mut self, geometry: &Geometry, run: Run, longest: u32) {
        if self.kept_count() >= KEPT_MAX {
            self.give_oldest_kept();
        }
        let held = self.hold_any(geometry, run, longest);
        held.kept.push_back(run);
    }

    fn kept_count(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.kept.len())
    }

    fn give_oldest_kept(&mut self) {
        let kept = self.held.as_mut().and_then(|held| held.kept.pop_front());
        if let Some(run) = kept {
            self.release(run);
        }
    }

    /// Gives what is kept from this cluster on to who asks for it.
    pub(super) fn give_kept(&mut self, start: u32) {
        let kept = self.held.as_mut().and_then(|held| {
            let nth = held.kept.iter().position(|run| run.start == start)?;
            held.kept.remove(nth)
        });
        if let Some(run) = kept {
            self.release(run);
        }
    }

    /// Gives all that is kept to everybody.
    pub(super) fn give_all_kept(&mut self) {
        while self.kept_count() > 0 {
            self.give_oldest_kept();
        }
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
