//! The choice of the group for a new inode.
//!
//! It follows Linux (`find_group_orlov`, after Grigoriy Orlov's allocator of BSD). Directories at
//! the top of the tree are spread over the groups, since their contents are seldom used together.
//! All other inodes are kept near their parents, as long as the group is not crowded. With
//! `flex_bg` a flexible group counts as one group, and inodes are packed at its beginning.

use crate::error::Result;
use crate::inode::{InodeFlags, ROOT};
use crate::volume::Volume;

use super::Allocator;

/// The free space and the directories of a flexible group.
#[derive(Debug, Default, Clone, Copy)]
struct FlexGroupUsage {
    free_inodes: u64,
    free_clusters: u64,
    directories: u64,
}

impl Allocator {
    /// Returns the group for a file: the first group of the parent's flexible group that has a free
    /// inode.
    pub(super) fn group_for_file(&self, parent_group: u32) -> u32 {
        self.first_with_inode(self.flex_of(parent_group))
            .unwrap_or(parent_group)
    }

    /// Returns the group for a directory.
    ///
    /// # Errors
    /// Fails if the parent cannot be read.
    pub(super) fn group_for_directory(
        &self,
        volume: &Volume,
        parent: u32,
        parent_group: u32,
    ) -> Result<u32> {
        let parent_flex = self.flex_of(parent_group);
        let is_top = parent == ROOT
            || volume
                .inode(parent)?
                .is_some_and(|inode| inode.has(InodeFlags::TOP_DIR));
        let flex = if is_top {
            self.emptiest_flex(volume.ambient.random())
        } else {
            self.flex_near(parent_flex)
        };
        let group = flex.and_then(|flex| self.first_with_inode(flex));
        Ok(group.unwrap_or_else(|| self.group_with_many_inodes(parent_group)))
    }

    fn flex_of(&self, group: u32) -> u32 {
        group.wrapping_shr(self.geometry.flex_bits)
    }

    fn first_with_inode(&self, flex: u32) -> Option<u32> {
        self.geometry.groups_of_flex(flex).find(|&group| {
            self.summary(group)
                .is_some_and(|summary| summary.free_inodes() > 0)
        })
    }

    fn usage(&self, flex: u32) -> FlexGroupUsage {
        let groups = self.geometry.groups_of_flex(flex);
        let summaries = groups.filter_map(|group| self.summary(group));
        summaries.fold(FlexGroupUsage::default(), |sum, summary| FlexGroupUsage {
            free_inodes: sum.free_inodes.saturating_add(summary.free_inodes().into()),
            free_clusters: sum
                .free_clusters
                .saturating_add(summary.free_clusters().into()),
            directories: sum
                .directories
                .saturating_add(summary.used_directories().into()),
        })
    }

    /// Returns the average over all flexible groups.
    fn average(&self) -> FlexGroupUsage {
        let flexes = u64::from(self.geometry.flexes());
        let share = |count: u64| count.checked_div(flexes).unwrap_or(0);
        FlexGroupUsage {
            free_inodes: share(self.counters.free_inodes()),
            free_clusters: share(self.counters.free_clusters()),
            directories: share(self.counters.directories()),
        }
    }

    /// Returns all flexible groups: from `first` to the last, then those before `first`.
    fn flexes_from(&self, first: u32) -> impl Iterator<Item = u32> + use<> {
        let count = self.geometry.flexes();
        let first = first.checked_rem(count).unwrap_or(0);
        (first..count).chain(0..first)
    }

    /// Returns the flexible group with the fewest directories, of those with at least average free
    /// space.
    fn emptiest_flex(&self, from: u32) -> Option<u32> {
        let average = self.average();
        let mut best: Option<(u32, u64)> = None;
        for flex in self.flexes_from(from) {
            let usage = self.usage(flex);
            let has_room = usage.free_inodes > 0
                && usage.free_inodes >= average.free_inodes
                && usage.free_clusters >= average.free_clusters;
            if has_room && best.is_none_or(|(_, fewest)| usage.directories < fewest) {
                best = Some((flex, usage.directories));
            }
            if best.is_some_and(|(_, fewest)| fewest == 0) {
                break;
            }
        }
        best.map(|(flex, _)| flex)
    }

    /// Returns the nearest flexible group that is not crowded.
    fn flex_near(&self, parent_flex: u32) -> Option<u32> {
        /// The divisor that gives how many directories above the average a flexible group may have:
        /// one sixteenth of its inodes.
        const DIRECTORIES_SHARE: u64 = 16;
        /// The divisor that gives how far below the average its free space may be: a quarter of all
        /// that it has.
        const ROOM_SHARE: u64 = 4;
        let average = self.average();
        let flex_groups = 1u64.wrapping_shl(self.geometry.flex_bits);
        let inodes = u64::from(self.geometry.inodes_per_group).saturating_mul(flex_groups);
        let clusters = u64::from(self.geometry.clusters_per_group()).saturating_mul(flex_groups);
        let directories_max = average
            .directories
            .saturating_add(inodes.wrapping_div(DIRECTORIES_SHARE));
        let inodes_min = average
            .free_inodes
            .saturating_sub(inodes.wrapping_div(ROOM_SHARE))
            .max(1);
        let clusters_min = average
            .free_clusters
            .saturating_sub(clusters.wrapping_div(ROOM_SHARE));
        self.flexes_from(parent_flex).find(|&flex| {
            let usage = self.usage(flex);
            usage.directories < directories_max
                && usage.free_inodes >= inodes_min
                && usage.free_clusters >= clusters_min
        })
    }

    /// Returns the nearest group with at least the average number of free inodes, else the nearest
    /// group with a free inode.
    fn group_with_many_inodes(&self, parent_group: u32) -> u32 {
        let groups = u64::from(self.geometry.groups);
        let average = self.counters.free_inodes().checked_div(groups).unwrap_or(0);
        let with = |least: u64| {
            self.geometry.groups_from(parent_group).find(|&group| {
                let free = self.summary(group).map_or(0, super::Summary::free_inodes);
                u64::from(free) >= least
            })
        };
        with(average.max(1))
            .or_else(|| with(1))
            .unwrap_or(parent_group)
    }
}
