//! Blocks that a file gets where it has a hole.

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

/// The most blocks that one request asks for: the longest extent.
const REQUEST_BLOCKS_MAX: u64 = 1 << 15;

/// Blocks that a file has got and that are not mapped yet: to be mapped, or given back.
#[derive(Debug)]
#[must_use]
pub(crate) struct NewRun {
    run: Run,
    /// What was allocated for it: with clusters, more than the run or nothing at all.
    allocated: Option<FreedRun>,
}

impl NewRun {
    /// What is to be mapped; written.
    pub(crate) const fn run(&self) -> Run {
        self.run
    }

    /// Undoes the allocation.
    pub(crate) fn give_back(self, handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
        match self.allocated {
            Some(run) => allocation::free(handle, inode, run),
            None => Ok(()),
        }
    }
}

/// Allocates one run for the beginning of a hole, as long as there is a contiguous one. What the
/// hole's search left out is not looked at: the run ends with the hole. Blocks are taken from what
/// is reserved, as long as there are any.
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
    // What goes into one leaf is mapped whole or not at all.
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

/// Allocates for file block `start`, where the hole or its first cluster begins, and so many in all,
/// which are whole clusters.
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
        keep_blocks: kept_blocks(hole),
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
        new.give_back(handle, inode)?;
        let reason = "no block below 2^32 is left for a file with a block map";
        return Err(Error::new(ErrorKind::NoSpace, reason));
    }
    Ok(new)
}

/// How many blocks are kept behind new ones: none for a file's first, and for one that grows as many
/// as it has, so that files that grow side by side are in few pieces.
fn kept_blocks(hole: &Hole) -> u32 {
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

/// Where the hole's first block would be best.
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

/// The same where blocks come in clusters: the rest of one that the file has already, or new ones.
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
    // The last cluster is not wanted where the file has it already.
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

/// The run for a hole's beginning, up to file block `until`.
fn cut(hole: &Hole, first: FsBlock, until: u64) -> Run {
    let len = hole.end.min(until).saturating_sub(u64::from(hole.start.0));
    Run {
        file_block: hole.start,
        fs_block: first,
        len_blocks: u32::try_from(len).unwrap_or(u32::MAX),
        written: true,
    }
}

/// The block for file block `at` where another block of its cluster is mapped.
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
