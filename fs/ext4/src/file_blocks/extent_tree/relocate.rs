//! Moving extents and nodes out of the part of the filesystem that will be cut off.

use std::ops::Range;

use super::edit::Editor;
use super::map::part_from;
use super::node;
use super::path::Path;
use crate::allocator::{Request, Reserve};
use crate::block::{FileBlock, FsBlock};
use crate::error::{Error, ErrorKind, Result};
use crate::file_blocks::allocation::{self, cluster_blocks};
use crate::file_blocks::relocate::Relocation;
use crate::run::Run;
use crate::transaction::FreedRun;

impl Editor<'_, '_> {
    /// Moves the first run or node at or after file block `from` that is not allocatable. Returns
    /// the file block to continue with, or `None` if there is no such run.
    pub(in super::super) fn relocate_step(
        &mut self,
        from: u64,
        relocation: &Relocation<'_>,
    ) -> Result<Option<u64>> {
        let mut at = from;
        while let Ok(block) = u32::try_from(at) {
            let path = self.find(FileBlock(block))?;
            if self.relocate_node(&path)? {
                return Ok(Some(at));
            }
            let Some(here) = path.first_extent() else {
                at = path.range().end;
                continue;
            };
            match self.outside(here) {
                Some(run) => return self.move_run(&path, run, relocation).map(Some),
                None => at = here.end(),
            }
        }
        Ok(None)
    }

    /// Returns the part of a run that is not allocatable.
    fn outside(&self, run: Run) -> Option<Run> {
        let end = self.handle.allocator.allocatable_end();
        let skipped = u32::try_from(end.0.saturating_sub(run.fs_block.0)).unwrap_or(u32::MAX);
        run.starting_at(FileBlock(run.file_block.0.saturating_add(skipped)))
            .filter(|outside| outside.fs_block >= end)
    }

    /// Moves the first node of a path that is not allocatable. Returns true if there was one.
    fn relocate_node(&mut self, path: &Path) -> Result<bool> {
        let end = self.handle.allocator.allocatable_end();
        for (parent, node) in path.stops.iter().zip(path.stops.iter().skip(1)) {
            let Some(block) = node.block.filter(|block| *block >= end) else {
                continue;
            };
            let goal = self.handle.allocator.goal_for(self.inode);
            let new = allocation::allocate_tree_block(self.handle, self.inode, goal)?;
            let bytes = self.node(block)?;
            self.handle.replace(self.key(new), bytes);
            self.change_node(parent.block, |bytes| {
                node::set_child(bytes, parent.position, new);
            })?;
            allocation::free_tree_block(self.handle, self.inode, block)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Moves the beginning of a run, with bigalloc in whole clusters. Returns where the rest
    /// begins.
    fn move_run(&mut self, path: &Path, run: Run, relocation: &Relocation<'_>) -> Result<u64> {
        let superblock = &self.volume().superblock;
        let cluster = u64::from(cluster_blocks(superblock));
        let within = cluster.wrapping_sub(1);
        let start = u64::from(run.file_block.0) & !within;
        let lead = u64::from(run.file_block.0).saturating_sub(start);
        let old = FsBlock(run.fs_block.0.saturating_sub(lead));
        let wanted = run.end().next_multiple_of(cluster).saturating_sub(start);
        let wanted = wanted.min(u64::from(relocation.step_blocks).next_multiple_of(cluster));
        let goal = match path.before() {
            Some(before) => before.fs_block.after(u64::from(before.len_blocks)),
            None => self.handle.allocator.goal_for(self.inode),
        };
        let request = Request {
            goal: FsBlock(goal.0 & !within),
            len_blocks: u32::try_from(wanted).unwrap_or(u32::MAX),
            preallocate_blocks: 0,
            reserve: Reserve::Use,
        };
        let new = self.handle.allocator.allocate(self.handle, request)?;
        let end = start.saturating_add(u64::from(new.len_blocks));
        if let Err(e) = self.remap(start..end, new.first) {
            let len_blocks = u64::from(new.len_blocks);
            let first = new.first;
            let unused = FreedRun { first, len_blocks };
            self.handle.allocator.free(self.handle, unused)?;
            return Err(e);
        }
        // The last cluster of the filesystem may be incomplete.
        let left = superblock.blocks_count.saturating_sub(old.0);
        let len_blocks = u64::from(new.len_blocks).min(left);
        if run.written || cluster > 1 {
            let len = u32::try_from(len_blocks).unwrap_or(u32::MAX);
            (relocation.copy)(self.handle, old, new.first, len)?;
        }
        let old = FreedRun {
            first: old,
            len_blocks,
        };
        self.handle.allocator.free(self.handle, old)?;
        Ok(end)
    }

    /// Makes all extents of a range refer to the blocks from `to` on.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
    fn remap(&mut self, range: Range<u64>, to: FsBlock) -> Result<()> {
        let mut at = range.start;
        let mut changed = false;
        while let Some(block) = u32::try_from(at).ok().filter(|_| at < range.end) {
            let path = self.find(FileBlock(block))?;
            let Some(here) = path.first_extent() else {
                at = path.range().end;
                continue;
            };
            if u64::from(here.file_block.0) >= range.end {
                break;
            }
            at = here.end();
            match self.remap_extent(path, here, &range, to) {
                Err(e) if changed && e.kind() == ErrorKind::NoSpace => {
                    // Half of a cluster's extents have moved: the transaction must not be committed.
                    let reason = "no space left for the extent tree while a cluster is moved";
                    return Err(Error::new(ErrorKind::Io, reason).with_source(e));
                }
                other => other?,
            }
            changed = true;
        }
        Ok(())
    }

    fn remap_extent(
        &mut self,
        path: Path,
        here: Run,
        range: &Range<u64>,
        to: FsBlock,
    ) -> Result<()> {
        let before = here.ending_at(range.start);
        let moved = part_from(here, range.start).unwrap_or(here);
        let after = part_from(here, range.end);
        let offset = u64::from(moved.file_block.0).saturating_sub(range.start);
        let Some(mut moved) = moved.ending_at(range.end) else {
            return Ok(());
        };
        moved.fs_block = to.after(offset);
        let position = path.position();
        let mut window = position..position.saturating_add(1);
        let mut runs: Vec<Run> = before.into_iter().collect();
        // A long extent is moved in several steps, and must not become several extents by that.
        if let (None, Some(mut joined)) = (before, path.before())
            && joined.len_blocks.saturating_add(moved.len_blocks) <= node::len_max(moved.written)
            && joined.absorb(&moved)
        {
            window.start = window.start.saturating_sub(1);
            runs.push(joined);
        } else {
            runs.push(moved);
        }
        runs.extend(after);
        self.put(path, window, &runs)
    }
}
