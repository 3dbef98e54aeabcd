//! Allocation and freeing of a file's blocks. The inode's block count follows.
//!
//! With bigalloc, whole clusters are allocated, and a file's blocks have the same offset in a
//! cluster as in the file. A file owns a cluster as long as any block of it is mapped.

use diskfs_vfs::FileType;

use crate::allocator::{Allocated, Request, Reserve};
use crate::block::{FileBlock, FsBlock};
use crate::bytes::index;
use crate::error::Result;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::run::Run;
use crate::superblock::Superblock;
use crate::transaction::FreedRun;
use crate::volume::Volume;

/// Returns the number of blocks in a cluster.
pub(super) fn cluster_blocks(superblock: &Superblock) -> u32 {
    1u32.wrapping_shl(superblock.cluster_ratio_bits)
}

/// Allocates a run of at most `len_blocks`; with bigalloc, in whole clusters.
pub(super) fn allocate(
    handle: &Handle<'_>,
    inode: &mut Inode,
    request: Request,
) -> Result<Allocated> {
    let allocated = handle.allocator.allocate(handle, request)?;
    let bytes = bytes_of(handle.volume(), u64::from(allocated.len_blocks));
    inode.allocated_bytes = inode.allocated_bytes.saturating_add(bytes);
    Ok(allocated)
}

/// Frees a run of blocks; with bigalloc, of whole clusters.
pub(super) fn free(handle: &Handle<'_>, inode: &mut Inode, run: FreedRun) -> Result<()> {
    handle.allocator.free(handle, run)?;
    subtract(handle, inode, run);
    Ok(())
}

/// Undoes an allocation of the same operation.
pub(super) fn undo(handle: &Handle<'_>, inode: &mut Inode, run: FreedRun) -> Result<()> {
    handle.allocator.undo(handle, run)?;
    subtract(handle, inode, run);
    Ok(())
}

fn subtract(handle: &Handle<'_>, inode: &mut Inode, run: FreedRun) {
    let bytes = bytes_of(handle.volume(), run.len_blocks);
    inode.allocated_bytes = inode.allocated_bytes.saturating_sub(bytes);
}

fn bytes_of(volume: &Volume, len_blocks: u64) -> u64 {
    volume.superblock.block_size.bytes_of(len_blocks)
}

/// Allocates a block for the map itself; with bigalloc, a whole cluster. It may use root's reserve:
/// a file that got data blocks must be able to map them as long as there is any space.
pub(super) fn allocate_tree_block(
    handle: &Handle<'_>,
    inode: &mut Inode,
    goal: FsBlock,
) -> Result<FsBlock> {
    let request = Request {
        goal,
        len_blocks: cluster_blocks(&handle.volume().superblock),
        preallocate_blocks: 0,
        reserve: Reserve::Use,
    };
    Ok(allocate(handle, inode, request)?.first)
}

/// Frees a block of the map itself, which was metadata.
pub(super) fn free_tree_block(
    handle: &Handle<'_>,
    inode: &mut Inode,
    block: FsBlock,
) -> Result<()> {
    handle.forget(block);
    free(handle, inode, cluster_of(handle, block))
}

/// Undoes [`allocate_tree_block`] in the same operation, before the block was written.
pub(super) fn undo_tree_block(
    handle: &Handle<'_>,
    inode: &mut Inode,
    block: FsBlock,
) -> Result<()> {
    undo(handle, inode, cluster_of(handle, block))
}

/// Returns the cluster of a block of the map.
fn cluster_of(handle: &Handle<'_>, block: FsBlock) -> FreedRun {
    let len_blocks = u64::from(cluster_blocks(&handle.volume().superblock));
    let first = FsBlock(block.0 & !len_blocks.wrapping_sub(1));
    FreedRun { first, len_blocks }
}

/// The unused part of the clusters that were reserved for a file ([`Allocator::reserve`]).
///
/// [`Allocator::reserve`]: crate::allocator::Allocator::reserve
#[derive(Debug)]
pub(crate) struct Reserved {
    clusters: u64,
}

impl Reserved {
    /// Returns a reservation of this many clusters. With 0, all allocations use free clusters.
    pub(crate) const fn new(clusters: u64) -> Self {
        Self { clusters }
    }

    /// Returns the number of clusters that are left.
    pub(crate) const fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Allocates from the reservation as long as it has clusters.
    pub(super) fn allocate(
        &mut self,
        handle: &Handle<'_>,
        inode: &mut Inode,
        request: Request,
    ) -> Result<Allocated> {
        if self.clusters == 0 {
            return allocate(handle, inode, request);
        }
        let bits = handle.volume().superblock.cluster_ratio_bits;
        let own = u32::try_from(self.clusters.wrapping_shl(bits)).unwrap_or(u32::MAX);
        let request = Request {
            len_blocks: request.len_blocks.min(own),
            reserve: Reserve::Own,
            ..request
        };
        let allocated = allocate(handle, inode, request)?;
        let used = u64::from(allocated.len_blocks).wrapping_shr(bits);
        self.clusters = self.clusters.saturating_sub(used);
        Ok(allocated)
    }
}

/// The block groups in which one step frees blocks. Each costs two blocks of metadata, and the
/// number of changes of a step is bounded.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    superblock: &'a Superblock,
    seen: Vec<u64>,
}

/// The maximum number of block groups per step.
pub(super) const GROUPS_PER_STEP: u32 = 16;

impl<'a> Groups<'a> {
    pub(super) const fn new(superblock: &'a Superblock) -> Self {
        Self {
            superblock,
            seen: Vec::new(),
        }
    }

    /// Returns the last part of a run that may still be freed in this step, if any.
    pub(super) fn admit(&mut self, run: Run) -> Option<Run> {
        let last = run
            .fs_block
            .0
            .saturating_add(u64::from(run.len_blocks).saturating_sub(1));
        let (from, to) = (self.group_of(run.fs_block.0), self.group_of(last));
        let mut lowest = None;
        for group in (from..=to).rev() {
            if !self.seen.contains(&group) {
                if self.seen.len() >= index(GROUPS_PER_STEP) {
                    break;
                }
                self.seen.push(group);
            }
            lowest = Some(group);
        }
        let start = self.start_of(lowest?);
        let skipped = start.saturating_sub(run.fs_block.0);
        let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
        run.starting_at(FileBlock(run.file_block.0.saturating_add(skipped)))
    }

    fn group_of(&self, block: u64) -> u64 {
        let within = block.saturating_sub(u64::from(self.superblock.first_data_block));
        let group = within.checked_div(u64::from(self.superblock.blocks_per_group));
        group.unwrap_or(0)
    }

    fn start_of(&self, group: u64) -> u64 {
        let group = u32::try_from(group).unwrap_or(u32::MAX);
        self.superblock.first_block_of_group(group).0
    }
}

/// Runs to be freed; adjacent ones are freed as one.
#[derive(Debug, Default)]
pub(super) struct PendingFrees {
    runs: Vec<FreedRun>,
}

impl PendingFrees {
    /// Adds blocks, which are before the last added ones, and are joined with them if they are
    /// adjacent.
    pub(super) fn add(&mut self, first: FsBlock, len_blocks: u64) {
        if len_blocks == 0 {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if first.after(len_blocks) == last.first => {
                last.first = first;
                last.len_blocks = last.len_blocks.saturating_add(len_blocks);
            }
            _ => self.runs.push(FreedRun { first, len_blocks }),
        }
    }

    /// Returns where the last added run begins.
    pub(super) fn last_first(&self) -> Option<FsBlock> {
        self.runs.last().map(|run| run.first)
    }

    /// Frees the runs. A directory's blocks are metadata, which no checkpoint may write any more.
    pub(super) fn finish(self, handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
        for run in self.runs {
            if inode.is(FileType::Directory) {
                (0..run.len_blocks).for_each(|nth| handle.forget(run.first.after(nth)));
            }
            free(handle, inode, run)?;
        }
        Ok(())
    }
}
