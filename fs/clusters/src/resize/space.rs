//! The free space of a filesystem whose size changes.

use diskfs_vfs::Result;

use super::no_room;
use super::renumbering::{Move, Renumbering};
use crate::allocation::Allocation;
use crate::chain::{Chain, Cluster};

/// The places that neither the old filesystem nor the new one uses, by new cluster number. The
/// number of a place after the end of the new filesystem is counted on from there.
#[derive(Debug)]
pub struct Space {
    busy: Allocation,
    new_clusters: u32,
    /// The first cluster after the old filesystem: searches start there.
    start: Cluster,
}

impl Space {
    /// Returns the space beside the clusters that the old filesystem uses.
    pub fn new(used: &Allocation, renumbering: &Renumbering) -> Self {
        let old_clusters = used.clusters();
        let kept = old_clusters.saturating_sub(renumbering.shift());
        let new_clusters = renumbering.new_clusters();
        let mut busy = Allocation::new(new_clusters.max(kept));
        let mut from = Cluster(2).plus(renumbering.shift());
        while let Some((first, count)) = used.used_run(from, old_clusters) {
            for nth in 0..count {
                let old = first.plus(nth);
                busy.mark(Cluster(old.0.saturating_sub(renumbering.shift())), true);
            }
            from = first.plus(count);
        }
        Self {
            busy,
            new_clusters,
            start: Cluster(2).plus(kept.min(new_clusters)),
        }
    }

    /// Takes the first free run of the new filesystem from `from` on, of at most `count` clusters.
    fn take_from(&mut self, from: Cluster, count: u32, clusters: u32) -> Option<(Cluster, u32)> {
        let (first, found) = self.busy.free_run(from, clusters)?;
        let count = found.min(count);
        self.mark(first, count);
        Some((first, count))
    }

    fn mark(&mut self, first: Cluster, count: u32) {
        for nth in 0..count {
            self.busy.mark(first.plus(nth), true);
        }
    }

    /// Takes free clusters of the new filesystem: a run of at most `count`.
    ///
    /// # Errors
    /// `NoSpace` if none is free.
    fn take(&mut self, count: u32) -> Result<(Cluster, u32)> {
        let (start, end) = (self.start, self.new_clusters);
        let found = self.take_from(start, count, end);
        let found = found.or_else(|| self.take_from(Cluster(2), count, end));
        found.ok_or_else(no_room)
    }

    /// Takes consecutive free clusters of the new filesystem.
    ///
    /// # Errors
    /// `NoSpace` if no run is long enough.
    pub fn take_contiguous(&mut self, count: u32) -> Result<Cluster> {
        for from in [self.start, Cluster(2)] {
            let mut from = from;
            while let Some((first, found)) = self.busy.free_run(from, self.new_clusters) {
                if found >= count {
                    self.mark(first, count);
                    return Ok(first);
                }
                from = first.plus(found);
            }
        }
        Err(no_room())
    }

    /// Takes space for a part of the record, at most `count` clusters. It can be after the end of
    /// the new filesystem.
    ///
    /// # Errors
    /// `NoSpace` if nothing is free.
    pub fn take_for_record(&mut self, count: u32) -> Result<(Cluster, u32)> {
        let end = self.busy.clusters();
        let found = self.take_from(self.start, count, end);
        let found = found.or_else(|| self.take_from(Cluster(2), count, end));
        found.ok_or_else(no_room)
    }

    /// Returns the number of free clusters, those after the end of the new filesystem included.
    pub const fn free(&self) -> u32 {
        self.busy.free()
    }

    /// Moves the clusters that are in use and have no place in the new filesystem, unless
    /// `stays_behind` returns true for one.
    ///
    /// # Errors
    /// `NoSpace` if too few clusters are free.
    pub fn evacuate(
        &mut self,
        used: &Allocation,
        renumbering: &mut Renumbering,
        stays_behind: impl Fn(Cluster) -> bool,
    ) -> Result<()> {
        let clusters = used.clusters();
        let first_kept = Cluster(2).plus(renumbering.shift());
        let end_kept = first_kept.plus(renumbering.new_clusters());
        let mut from = Cluster(2);
        while let Some((first, count)) = used.used_run(from, clusters) {
            from = first.plus(count);
            let end = from;
            let mut run = Chain::default();
            for nth in 0..count {
                let cluster = first.plus(nth);
                if cluster >= first_kept && cluster < end_kept {
                    // Everything up to the end of the kept part stays in its place.
                    from = end.min(end_kept);
                    break;
                }
                let is_moved = renumbering.new_number(cluster).is_some();
                if !is_moved && !stays_behind(cluster) {
                    run.push(cluster, 1);
                }
            }
            self.move_runs(&run, renumbering)?;
        }
        Ok(())
    }

    fn move_runs(&mut self, clusters: &Chain, renumbering: &mut Renumbering) -> Result<()> {
        for run in clusters.runs() {
            let mut done = 0;
            while done < run.count {
                let (to, count) = self.take(run.count.saturating_sub(done))?;
                renumbering.add(Move {
                    from: run.first.plus(done),
                    to,
                    count,
                });
                done = done.saturating_add(count);
            }
        }
        Ok(())
    }
}
