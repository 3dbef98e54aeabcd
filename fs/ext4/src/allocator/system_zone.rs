//! Blocks that no file can own: superblocks, group descriptors, bitmaps, inode tables, the journal.
//!
//! They protect against a bitmap that marks such blocks as free: diskfs must not overwrite them.

use crate::block::FsBlock;
use crate::error::Result;
use crate::group_descriptor::GroupDescriptor;
use crate::run::Run;
use crate::statistics::blocks_at_start;
use crate::superblock::Superblock;

/// The blocks, as sorted runs that do not touch each other.
#[derive(Debug, Default)]
pub(crate) struct SystemZone {
    runs: Vec<Zone>,
}

/// A range of block numbers from `first` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Zone {
    first: u64,
    end: u64,
}

impl SystemZone {
    /// Adds a group's metadata: the blocks at places given by the geometry and by its descriptor.
    pub(crate) fn add_group(
        &mut self,
        superblock: &Superblock,
        group: u32,
        descriptor: &GroupDescriptor,
    ) {
        let table_blocks = u64::from(superblock.inode_table_blocks());
        let first = superblock.first_block_of_group(group);
        let at_start = blocks_at_start(superblock, group);
        if group == 0 {
            // With bigalloc and blocks of 1 KiB the superblock is not the group's first block.
            let superblock_at = crate::superblock::superblock_block(superblock.block_size);
            self.add(FsBlock(0), superblock_at.after(at_start).0);
        } else {
            self.add(first, at_start);
        }
        self.add(descriptor.block_bitmap, 1);
        self.add(descriptor.inode_bitmap, 1);
        self.add(descriptor.inode_table, table_blocks);
    }

    /// Adds the journal's blocks.
    ///
    /// # Errors
    /// Returns those of `runs`.
    pub(crate) fn add_journal(&mut self, runs: impl Iterator<Item = Result<Run>>) -> Result<()> {
        for run in runs {
            let run = run?;
            self.add(run.fs_block, u64::from(run.len_blocks));
        }
        Ok(())
    }

    fn add(&mut self, first: FsBlock, len_blocks: u64) {
        let end = first.after(len_blocks).0;
        match self.runs.last_mut() {
            // Most runs come in order: the tables of neighbouring groups are adjacent.
            Some(last) if last.end == first.0 => last.end = end,
            _ if len_blocks > 0 => self.runs.push(Zone {
                first: first.0,
                end,
            }),
            _ => {}
        }
    }

    /// Sorts the runs; queries are valid only after this.
    pub(crate) fn sort(&mut self) {
        self.runs.sort_unstable();
        self.runs.dedup_by(|next, last| {
            let joins = next.first <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        self.runs.shrink_to_fit();
    }

    /// Returns the first block and the length of the part of the zone that is within a run of
    /// blocks.
    pub(crate) fn within(
        &self,
        first: FsBlock,
        len_blocks: u64,
    ) -> impl Iterator<Item = (FsBlock, u64)> + '_ {
        let end = first.after(len_blocks).0;
        let start = self.runs.partition_point(|zone| zone.end <= first.0);
        let behind = self.runs.get(start..).unwrap_or_default();
        let inside = behind.iter().take_while(move |zone| zone.first < end);
        inside.map(move |zone| {
            let from = zone.first.max(first.0);
            let until = zone.end.min(end);
            (FsBlock(from), until.saturating_sub(from))
        })
    }

    /// Returns true if no block of the run is in the zone.
    pub(crate) fn is_disjoint(&self, first: FsBlock, len_blocks: u64) -> bool {
        self.within(first, len_blocks).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged_and_cut() {
        let mut zone = SystemZone::default();
        for (first, len) in [(10, 5), (15, 5), (0, 2), (18, 4), (40, 1)] {
            zone.add(FsBlock(first), len);
        }
        zone.sort();
        let found: Vec<_> = zone.within(FsBlock(1), 20).collect();
        assert_eq!(found, [(FsBlock(1), 1), (FsBlock(10), 11)]);
        assert!(zone.is_disjoint(FsBlock(2), 8));
        assert!(!zone.is_disjoint(FsBlock(2), 9));
        assert!(!zone.is_disjoint(FsBlock(40), 1));
        assert!(zone.is_disjoint(FsBlock(41), 100));
    }
}
