//! Blocks allocated for a hole of a file.

use crate::allocator::{Request, Reserve};
use crate::block::{FileBlock, FsBlock};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::run::Run;
use crate::transaction::FreedRun;

use super::allocation::{self, Reserved, cluster_blocks};
use super::change::Hole;
use super::{block_map, extent_tree};

/// The maximum number of blocks of one request: the longest extent.
const REQUEST_BLOCKS_MAX: u64 = 1 << 15;

/// Blocks that were allocated for a file and are not mapped yet. They must be mapped, or given
/// back.
#[derive(Debug)]
#[must_use]
pub(crate) struct NewRun {
    run: Run,
    /// The allocated run: with bigalloc it can be longer than the run to map, or absent.
    allocated: Option<FreedRun>,
}

impl NewRun {
    /// Returns the run to be mapped; it is written.
    pub(crate) const fn run(&self) -> Run {
        self.run
    }

    /// Undoes the allocation.
    pub(crate) fn undo(self, handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
        match self.allocated {
            Some(run) => allocation::undo(handle, inode, run),
            None => Ok(()),
        }
    }
}

/// Allocates one run for the beginning of a hole, as long as is contiguously free. Blocks that the
/// hole's search left out are not considered: the run ends with the hole. Reserved blocks are used
/// first.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
pub(crate) fn allocate(
    handle: &Handle<'_>,
    inode: &mut Inode,
    hole: &Hole,
    reserved: &mut Reserved,
) -> Result<NewRun> {
    if handle.volume().superblock.cluster_ratio_bits != 0 {
        return allocate_clusters(handle, inode, hole, reserved);
    }
    // Blocks that go into one leaf are mapped completely or not at all.
    let end = if inode.has(InodeFlags::EXTENTS) {
        hole.end
    } else {
        hole.end
            .min(block_map::leaf_end(handle.volume(), hole.start))
    };
    let wanted = end.saturating_sub(u64::from(hole.start.0));
    let wanted = wanted.clamp(1, REQUEST_BLOCKS_MAX);
    allocate_at(handle, inode, hole, hole.start, wanted, reserved)
}

/// Allocates for file block `start`, where the hole or its first cluster begins, the given number
/// of blocks, which are whole clusters.
fn allocate_at(
    handle: &Handle<'_>,
    inode: &mut Inode,
    hole: &Hole,
    start: FileBlock,
    len_blocks: u64,
    reserved: &mut Reserved,
) -> Result<NewRun> {
    let within = u64::from(cluster_blocks(&handle.volume().superblock)).wrapping_sub(1);
    let request = Request {
        goal: FsBlock(goal(handle, inode, hole).0 & !within),
        preallocate_blocks: blocks_to_preallocate(hole),
        len_blocks: u32::try_from(len_blocks).unwrap_or(u32::MAX),
        reserve: Reserve::Keep,
    };
    let allocated = reserved.allocate(handle, inode, request)?;
    let new = NewRun {
        run: Run {
            file_block: start,
            fs_block: allocated.first,
            len_blocks: allocated.len_blocks,
            written: true,
        },
        allocated: Some(FreedRun {
            first: allocated.first,
            len_blocks: u64::from(allocated.len_blocks),
        }),
    };
    let end = allocated.first.after(u64::from(allocated.len_blocks));
    if !inode.has(InodeFlags::EXTENTS) && end.0 > 1 << 32 {
        new.undo(handle, inode)?;
        let reason = "no space left below block 2^32, where a file with a block map must be stored";
        return Err(Error::new(ErrorKind::NoSpace, reason));
    }
    Ok(new)
}

/// Returns the number of blocks to preallocate after new ones: none for a file's first blocks, and
/// as many as the file has for a growing file, so that files that grow side by side have few
/// fragments.
fn blocks_to_preallocate(hole: &Hole) -> u32 {
    const MIN: u32 = 8;
    const MAX: u32 = 2048;
    let start = u64::from(hole.start.0);
    let grows = hole.after.is_none() && hole.before.is_some_and(|run| run.end() == start);
    if grows {
        hole.start.0.clamp(MIN, MAX)
    } else {
        0
    }
}

/// Returns the preferred place of the hole's first block.
fn goal(handle: &Handle<'_>, inode: &Inode, hole: &Hole) -> FsBlock {
    if let Some(before) = hole.before {
        let further = u64::from(hole.start.0).saturating_sub(u64::from(before.file_block.0));
        return before.fs_block.after(further);
    }
    let home = handle.allocator.goal_for(inode);
    let Some(after) = hole.after else {
        return home;
    };
    let back = u64::from(after.file_block.0).saturating_sub(u64::from(hole.start.0));
    after.fs_block.0.checked_sub(back).map_or(home, FsBlock)
}

/// Allocates with bigalloc: the rest of a cluster that the file already has, or new clusters.
fn allocate_clusters(
    handle: &Handle<'_>,
    inode: &mut Inode,
    hole: &Hole,
    reserved: &mut Reserved,
) -> Result<NewRun> {
    let superblock = &handle.volume().superblock;
    let cluster = u64::from(cluster_blocks(superblock));
    let within = cluster.wrapping_sub(1);
    let start = u64::from(hole.start.0);
    let cluster_start = start & !within;
    let cluster_end = cluster_start.saturating_add(cluster);
    if let Some(first) = block_in_cluster(handle, inode, start, cluster_start..cluster_end)? {
        return Ok(NewRun {
            run: cut(hole, first, cluster_end),
            allocated: None,
        });
    }
    // The last cluster is not needed if the file already has it.
    let last = hole.end & !within;
    let ends_within = hole.end & within != 0;
    let has_last = ends_within
        && last >= cluster_end
        && block_in_cluster(handle, inode, last, last..last.saturating_add(cluster))?.is_some();
    let end = if ends_within && !has_last {
        last.saturating_add(cluster)
    } else {
        last
    };
    let wanted = end
        .saturating_sub(cluster_start)
        .clamp(cluster, REQUEST_BLOCKS_MAX.max(cluster));
    let whole = FileBlock(u32::try_from(cluster_start).unwrap_or(u32::MAX));
    let mut new = allocate_at(handle, inode, hole, whole, wanted, reserved)?;
    let first = new.run.fs_block.after(start.saturating_sub(cluster_start));
    new.run = cut(hole, first, new.run.end());
    Ok(new)
}

/// Returns the run for a hole's beginning, up to file block `until`.
fn cut(hole: &Hole, first: FsBlock, until: u64) -> Run {
    let len = hole.end.min(until).saturating_sub(u64::from(hole.start.0));
    Run {
        file_block: hole.start,
        fs_block: first,
        len_blocks: u32::try_from(len).unwrap_or(u32::MAX),
        written: true,
    }
}

/// Returns the block for file block `at` if another block of its cluster is mapped.
fn block_in_cluster(
    handle: &Handle<'_>,
    inode: &Inode,
    at: u64,
    cluster: std::ops::Range<u64>,
) -> Result<Option<FsBlock>> {
    let found = extent_tree::next_run(handle.volume(), inode, cluster.start, cluster.end)?;
    let Some(run) = found else {
        return Ok(None);
    };
    let first = u64::from(run.file_block.0);
    Ok(Some(match at.checked_sub(first) {
        Some(further) => run.fs_block.after(further),
        None => FsBlock(run.fs_block.0.saturating_sub(first.saturating_sub(at))),
    }))
}
