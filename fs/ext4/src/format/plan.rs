//! The plan of a new filesystem: everything is decided before the first byte is written.

use zerocopy::little_endian::U32;

use super::geometry::Geometry;
use super::journal_size::{JournalSize, journal_size, orphan_file_blocks};
use super::new_files::{FilePlanner, JOURNAL, NewFiles, ORPHAN_FILE};
use super::options::FormatOptions;
use super::superblock::{self as new_superblock, FIRST_INODE, set_wide};
use super::tables::{self, GroupTables};
use super::used_blocks::UsedBlocks;
use crate::error::{Error, ErrorKind, Result};
use crate::features::Compatible;
use crate::superblock::{RawSuperblock, Superblock, sealed};

/// Everything that is written to the device.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) raw: RawSuperblock,
    pub(super) superblock: Superblock,
    /// The places of each group's metadata.
    pub(super) tables: Vec<GroupTables>,
    /// The blocks of metadata at fixed places, in whole clusters.
    pub(super) metadata: UsedBlocks,
    /// All blocks in use, in whole clusters.
    pub(super) used: UsedBlocks,
    pub(super) files: NewFiles,
    /// The number of the last inode in use.
    pub(super) last_inode: u32,
    /// True if a group's bitmaps and inode table may be in another group.
    pub(super) has_scattered_tables: bool,
}

impl Plan {
    /// Plans a filesystem for a device of `device_bytes`.
    ///
    /// # Errors
    /// `Invalid` for options that contradict each other or the size of the device.
    pub(super) fn new(options: &FormatOptions, device_bytes: u64) -> Result<Self> {
        let mut geometry = Geometry::choose(options, device_bytes)?;
        let journal = journal_size(options, &geometry)?;
        if journal.is_none() {
            let with_journal = Compatible::HAS_JOURNAL.union(Compatible::ORPHAN_FILE);
            geometry.features.compatible.remove(with_journal);
        }
        let mut raw = new_superblock::new(options, &geometry)?;
        let superblock = Superblock::parse(&sealed(&mut raw), device_bytes)?;
        let first = u64::from(superblock.first_data_block);
        let mut used = UsedBlocks::new(first, superblock.blocks_count);
        tables::mark_starts(&superblock, &mut used);
        let tables = tables::place(&superblock, &geometry, options, &mut used)?;
        let metadata = used.in_clusters(superblock.cluster_ratio_bits);
        let mut plan = Self {
            raw,
            superblock,
            tables,
            used: metadata.clone(),
            metadata,
            files: NewFiles::default(),
            last_inode: FIRST_INODE,
            has_scattered_tables: tables::are_scattered(&geometry, options),
        };
        plan.check_journal(options, journal)?;
        plan.add_files(options, &geometry, journal)?;
        plan.set_counts(journal);
        Ok(plan)
    }

    /// Fails if a journal whose size was asked for fills most of the filesystem.
    fn check_journal(&self, options: &FormatOptions, journal: Option<JournalSize>) -> Result<()> {
        let free = self.free_blocks(0..self.superblock.blocks_count);
        let most = free.wrapping_div(2);
        match journal {
            Some(size) if options.journal.size_mib.is_some() && size.blocks > most => {
                let blocks = size.blocks;
                let reason = format!(
                    "the journal is too large for the filesystem: {blocks} blocks, at most {most}"
                );
                Err(Error::new(ErrorKind::Invalid, reason))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of free blocks within a range.
    pub(super) fn free_blocks(&self, range: std::ops::Range<u64>) -> u64 {
        let start = range.start.max(u64::from(self.superblock.first_data_block));
        let all = range.end.saturating_sub(start);
        all.saturating_sub(self.used.count_in(start..range.end))
    }

    /// Returns the blocks of a group.
    pub(super) fn blocks_of_group(&self, group: u32) -> std::ops::Range<u64> {
        let first = self.superblock.first_block_of_group(group).0;
        let end = self
            .superblock
            .first_block_of_group(group.saturating_add(1))
            .0;
        first..end.min(self.superblock.blocks_count)
    }

    /// Returns the number of free clusters in a group.
    pub(super) fn free_clusters(&self, group: u32) -> u64 {
        self.free_blocks(self.blocks_of_group(group))
            .wrapping_shr(self.superblock.cluster_ratio_bits)
    }

    /// Returns the number of inodes of a group that are in use or before one in use.
    pub(super) fn inodes_in_use(&self, group: u32) -> u32 {
        let per_group = self.superblock.inodes_per_group;
        let before = group.saturating_mul(per_group);
        self.last_inode.saturating_sub(before).min(per_group)
    }

    fn add_files(
        &mut self,
        options: &FormatOptions,
        geometry: &Geometry,
        journal: Option<JournalSize>,
    ) -> Result<()> {
        let mut planner = FilePlanner::new(&self.superblock, options, &mut self.used);
        planner.directories()?;
        planner.bad_blocks();
        planner.resize_inode()?;
        self.files = planner.finish();
        let Some(size) = journal else { return Ok(()) };
        let goal = match options.journal.location {
            _ if options.extended.packed_meta_blocks => 0,
            Some(location) => geometry.blocks_of(location),
            None => self.midpoint(),
        };
        let mut planner = FilePlanner::new(&self.superblock, options, &mut self.used);
        let i_block = planner.journal(size, goal)?;
        let bytes = self.superblock.block_size.bytes_of(size.blocks);
        new_superblock::set_journal(&mut self.raw, JOURNAL, &i_block, bytes);
        if self.superblock.features.has(Compatible::ORPHAN_FILE) {
            planner.orphan_file(orphan_file_blocks(options, geometry))?;
            self.raw.s_orphan_file_inum.set(ORPHAN_FILE);
            self.last_inode = ORPHAN_FILE;
        }
        self.files.append(planner.finish());
        Ok(())
    }

    /// Returns where the journal should begin, by the rule of mke2fs: near the middle, in the group
    /// with the most free blocks.
    fn midpoint(&self) -> u64 {
        let superblock = &self.superblock;
        let groups = superblock.groups_count;
        let data_blocks = superblock
            .blocks_count
            .saturating_sub(u64::from(superblock.first_data_block));
        let middle = data_blocks.wrapping_div(2);
        let first = u64::from(superblock.first_data_block);
        let within = middle.saturating_sub(first);
        let group = within.checked_div(u64::from(superblock.blocks_per_group));
        let group = u32::try_from(group.unwrap_or(0)).unwrap_or(0);
        let flex_groups = 1u32.wrapping_shl(superblock.flex_group_bits);
        let (start, middle) = if superblock.flex_group_bits > 0 && group > flex_groups {
            let first = group & !flex_groups.wrapping_sub(1);
            let with_space = (first..groups).find(|&group| self.free_clusters(group) > 0);
            (with_space.unwrap_or(0), with_space.unwrap_or(0))
        } else {
            (group.saturating_sub(1), group)
        };
        let last = middle.saturating_add(1).min(groups.saturating_sub(1));
        let mut best = start;
        for candidate in start.saturating_add(1)..=last {
            if self.free_clusters(candidate) > self.free_clusters(best) {
                best = candidate;
            }
        }
        superblock.first_block_of_group(best).0
    }

    /// Sets the superblock's counts.
    fn set_counts(&mut self, journal: Option<JournalSize>) {
        let bits = self.superblock.cluster_ratio_bits;
        let first = u64::from(self.superblock.first_data_block);
        let all = first..self.superblock.blocks_count;
        let free = self.free_blocks(all.clone());
        let raw = &mut self.raw;
        set_wide(
            &mut raw.s_free_blocks_count_hi,
            &mut raw.s_free_blocks_count_lo,
            free,
        );
        let free_inodes = self.superblock.inodes_count.saturating_sub(self.last_inode);
        raw.s_free_inodes_count.set(free_inodes);
        let clusters = |blocks: u64| blocks.div_ceil(1u64.wrapping_shl(bits));
        let overhead = clusters(self.metadata.count_in(all))
            .saturating_add(clusters(journal.map_or(0, |size| size.blocks)))
            .saturating_add(clusters(first));
        raw.s_overhead_clusters = U32::new(u32::try_from(overhead).unwrap_or(0));
    }
}
