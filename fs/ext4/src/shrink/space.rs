//! The space that the contents of a filesystem need, and the sizes that it can be shrunk to.
//!
//! While contents move, the metadata of groups that will be cut off still occupies its places. With
//! `flex_bg` these are often in groups that stay. So a filesystem may have to be shrunk in several
//! stages, each of which frees the metadata of the groups that it cuts off.

use crate::allocator::system_zone::SystemZone;
use crate::allocator::{Bits, Geometry};
use crate::bytes::index;
use crate::error::Result;
use crate::group_descriptor::GroupDescriptor;
use crate::resize::edits::Edits;
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::geometry::shrunk;
use super::{bitmaps, zones};

/// The number of clusters that stay free in addition, for blocks of trees.
const SPARE_CLUSTERS: u64 = 8;

/// The use of the space.
#[derive(Debug)]
pub(super) struct Space<'s> {
    superblock: &'s Superblock,
    descriptors: &'s [GroupDescriptor],
    /// The number of clusters in use without metadata at fixed places, of each group and those
    /// before it.
    used: Vec<u64>,
    /// The number of runs of free clusters, of each group and those before it.
    free_runs: Vec<u64>,
    used_inodes: u64,
}

impl<'s> Space<'s> {
    /// Reads the bitmaps.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(super) fn read(volume: &'s Volume, descriptors: &'s [GroupDescriptor]) -> Result<Self> {
        let superblock = &volume.superblock;
        let zone = zones::zone(superblock, descriptors);
        let geometry = Geometry::new(superblock);
        let edits = Edits::new(volume);
        let mut space = Self {
            superblock,
            descriptors,
            used: Vec::new(),
            free_runs: Vec::new(),
            used_inodes: 0,
        };
        let (mut used, mut free_runs) = (0u64, 0u64);
        for (group, descriptor) in (0..superblock.groups_count).zip(descriptors) {
            let clusters = geometry.clusters_in(group);
            let metadata = zones::bitmap(&geometry, &zone, group);
            let metadata =
                clusters.saturating_sub(Bits::new(&metadata, None, clusters).count_clear());
            let in_use = clusters.saturating_sub(descriptor.free_clusters);
            used = used.saturating_add(u64::from(in_use.saturating_sub(metadata)));
            space.used.push(used);
            let bitmap = bitmaps::read(&edits, &zone, group)?;
            free_runs =
                free_runs.saturating_add(runs(&Bits::new(&bitmap, None, clusters), clusters));
            space.free_runs.push(free_runs);
            let inodes = superblock
                .inodes_per_group
                .saturating_sub(descriptor.free_inodes);
            space.used_inodes = space.used_inodes.saturating_add(u64::from(inodes));
        }
        Ok(space)
    }

    /// Returns the sizes of the stages of shrinking to `target`, or `None` if the contents need
    /// more.
    ///
    /// # Errors
    /// Fails like [`shrunk`].
    pub(super) fn stages(&self, target: &Superblock) -> Result<Option<Vec<u64>>> {
        let mut stages = Vec::new();
        let mut current = self.superblock.clone();
        if u64::from(target.inodes_count) < self.used_inodes {
            return Ok(None);
        }
        loop {
            let zone = zones::zone(&current, self.descriptors);
            if self.fits(&zone, target.blocks_count) {
                stages.push(target.blocks_count);
                return Ok(Some(stages));
            }
            let Some(next) = self.smallest_group_end(&current, target.groups_count)? else {
                return Ok(None);
            };
            stages.push(next.blocks_count);
            current = next;
        }
    }

    /// Returns the smallest possible size.
    ///
    /// # Errors
    /// Fails like [`shrunk`].
    pub(super) fn minimum(&self) -> Result<Superblock> {
        let per_group = u64::from(self.superblock.inodes_per_group).max(1);
        let groups = u32::try_from(self.used_inodes.div_ceil(per_group)).unwrap_or(u32::MAX);
        let mut current = self.superblock.clone();
        while let Some(next) = self.smallest_group_end(&current, groups)? {
            current = next;
        }
        Ok(self.smallest_end(&current, groups))
    }

    /// Returns the smallest filesystem of whole groups, at least `groups_min`, that is smaller than
    /// `current` and that its contents fit into.
    fn smallest_group_end(
        &self,
        current: &Superblock,
        groups_min: u32,
    ) -> Result<Option<Superblock>> {
        let zone = zones::zone(current, self.descriptors);
        let end_of = |groups| current.first_block_of_group(groups).0;
        let (mut low, mut high) = (groups_min.max(1), current.groups_count);
        while low < high {
            let middle = low.midpoint(high);
            if self.fits(&zone, end_of(middle)) {
                high = middle;
            } else {
                low = middle.saturating_add(1);
            }
        }
        for groups in low..current.groups_count {
            let new = shrunk(self.superblock, end_of(groups))?;
            if zones::check_kept(&new, self.descriptors).is_ok() {
                return Ok(Some(new));
            }
        }
        Ok(None)
    }

    /// Returns the smallest filesystem that ends within the last group of `current`.
    fn smallest_end(&self, current: &Superblock, groups_min: u32) -> Superblock {
        let last = current.groups_count.saturating_sub(1);
        let (mut low, mut high) = (current.first_block_of_group(last).0, current.blocks_count);
        if current.groups_count < groups_min {
            return current.clone();
        }
        let zone = zones::zone(current, self.descriptors);
        let possible = |end: u64| {
            let new = shrunk(self.superblock, end).ok()?;
            let fits = new.groups_count == current.groups_count
                && zones::check_kept(&new, self.descriptors).is_ok()
                && self.fits(&zone, new.blocks_count);
            fits.then_some(new)
        };
        let mut best = current.clone();
        while high.saturating_sub(low) > 1 {
            let middle = low.midpoint(high);
            match possible(middle) {
                Some(new) => (best, high) = (new, middle),
                None => low = middle,
            }
        }
        best
    }

    /// Returns true if all contents fit into the blocks before `end`, beside the metadata of `zone`.
    fn fits(&self, zone: &SystemZone, end: u64) -> bool {
        let bits = self.superblock.cluster_ratio_bits;
        let start = u64::from(self.superblock.first_data_block);
        let all = end.saturating_sub(start).wrapping_shr(bits);
        let metadata = zones::clusters(self.superblock, zone, end);
        all.saturating_sub(metadata) >= self.needed(end)
    }

    /// Returns the number of clusters that the contents need before block `end`. Each run of free
    /// clusters can split an extent, and each extent in addition can need a block of a tree.
    fn needed(&self, end: u64) -> u64 {
        let all = self.used.last().copied().unwrap_or(0);
        let last = end.saturating_sub(1);
        let group = last
            .saturating_sub(u64::from(self.superblock.first_data_block))
            .checked_div(u64::from(self.superblock.blocks_per_group))
            .unwrap_or(0);
        let before = |list: &[u64], group: u64| list.get(index(group)).copied().unwrap_or(0);
        let kept = match group.checked_sub(1) {
            Some(group) => before(&self.used, group),
            None => 0,
        };
        let moved = all.saturating_sub(kept);
        let spare = before(&self.free_runs, group).min(moved);
        all.saturating_add(spare).saturating_add(SPARE_CLUSTERS)
    }
}

/// Returns the number of runs of clear bits.
fn runs(bits: &Bits<'_>, len: u32) -> u64 {
    let mut count = 0u64;
    let mut at = 0;
    while let Some(start) = bits.next_clear(at) {
        count = count.saturating_add(1);
        at = bits.next_set(start, len);
    }
    count
}
