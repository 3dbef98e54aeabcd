//! Moving the journal.
//!
//! The empty log is copied to its new place, and the nodes of the journal's new tree are written
//! beside the old ones. Then one transaction, in the old log, changes the journal's inode, the
//! bitmaps, and the copy of the inode in the superblock. The inode's block is written to its place
//! after all others: until then the old log is used, and replays the transaction; from then on the
//! new one is used, and it is empty.

use std::sync::Arc;

use diskfs_block::BlockWrite;

use crate::allocator::system_zone::SystemZone;
use crate::allocator::{clear_bits, set_bits};
use crate::block::{FileBlock, FsBlock};
use crate::bytes::{index, le32, len_u64, split64};
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result, Structure, malformed};
use crate::features::{Compatible, Incompatible};
use crate::file_blocks::{LEN_MAX, NewMap, NewTree, map_blocks_for, nodes, runs, tree_blocks_for};
use crate::hashing::HashSet;
use crate::inode::{self, Inode, InodeFlags};
use crate::inode_table;
use crate::resize::commit::{Commit, run_journaled};
use crate::resize::edits::Edits;
use crate::run::Run;
use crate::superblock::{self, RawSuperblock, Superblock};
use crate::volume::Volume;

use super::free_space::FreeSpace;
use super::{descriptors, zones};

/// The number of bytes of the log that are copied at once.
const COPY_BYTES: u32 = 1 << 20;

/// Moves the journal, if a part of it is not within the new filesystem.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
pub(super) fn relocate_journal(
    device: &Arc<dyn BlockWrite>,
    volume: &Volume,
    new: &Superblock,
) -> Result<()> {
    let old = &volume.superblock;
    if !old.features.has(Compatible::HAS_JOURNAL) {
        return Ok(());
    }
    let Some(inode) = volume.inode(old.journal_inode)? else {
        let problem = "not in use, although it is the journal's inode";
        return Err(malformed(Structure::Inode(old.journal_inode), problem));
    };
    let old_runs: Vec<Run> = runs(volume, &inode, FileBlock(0)).collect::<Result<_>>()?;
    let old_nodes = nodes(volume, &inode)?;
    let end = FsBlock(new.blocks_count);
    let outside = |first: FsBlock, len: u32| first.after(u64::from(len)) > end;
    let moves = old_runs
        .iter()
        .any(|run| outside(run.fs_block, run.len_blocks))
        || old_nodes.iter().any(|block| outside(*block, 1));
    if !moves {
        return Ok(());
    }
    let zone = zones::zone(old, &descriptors(volume)?);
    let mut edits = Edits::new(volume);
    let mut space = FreeSpace::find(&edits, &zone, new)?;
    let plan = Plan::new(new, &old_runs, &mut space)?;
    let tree = plan.tree(new, &inode, &mut space)?;
    // The log must be empty before it is copied.
    let Commit::Journal(log) = Commit::open(device, old)? else {
        return Ok(());
    };
    let writer = DeviceWriter::new(Arc::clone(device), old.block_size);
    plan.copy(volume, &writer)?;
    for (block, bytes) in &tree.nodes {
        writer.write_block(*block, bytes)?;
    }
    writer.flush()?;
    change_bitmaps(&mut edits, &zone, (&plan, &tree, &old_nodes))?;
    let moved = moved_inode(old, &inode, &tree, old_nodes.len());
    let inode_block = put_inode(&mut edits, &moved)?;
    let free = free_blocks(&edits)?;
    let block = superblock::superblock_block(old.block_size);
    edits.change(block, |bytes| {
        superblock::change(old, bytes, |raw| change_superblock(raw, &moved, free))
    })??;
    let (changed, _) = edits.split(FsBlock(u64::MAX));
    run_journaled(*log, &writer, old, (&changed, inode_block))
}

/// Allocates the new blocks, and frees the old ones.
fn change_bitmaps(
    edits: &mut Edits<'_>,
    zone: &SystemZone,
    (plan, tree, old_nodes): (&Plan, &Tree, &HashSet<FsBlock>),
) -> Result<()> {
    let mut set = |run, apply| super::bitmaps::change_run(edits, zone, run, apply);
    for (_, to, len) in &plan.copies {
        set((*to, *len), set_bits)?;
    }
    for (block, _) in &tree.nodes {
        set((*block, 1), set_bits)?;
    }
    for (from, _, len) in &plan.copies {
        set((*from, *len), clear_bits)?;
    }
    for block in old_nodes {
        set((*block, 1), clear_bits)?;
    }
    Ok(())
}

/// Returns the journal's inode with its new tree.
fn moved_inode(old: &Superblock, inode: &Inode, tree: &Tree, old_nodes: usize) -> Inode {
    let cluster_bits = old.cluster_ratio_bits;
    let bytes_of = |nodes: usize| {
        old.block_size
            .bytes_of(len_u64(nodes).wrapping_shl(cluster_bits))
    };
    let allocated_bytes = inode
        .allocated_bytes
        .saturating_sub(bytes_of(old_nodes))
        .saturating_add(bytes_of(tree.nodes.len()));
    Inode {
        block: tree.root,
        allocated_bytes,
        ..inode.clone()
    }
}

/// The journal's new runs.
#[derive(Debug)]
struct Plan {
    runs: Vec<Run>,
    /// The blocks to be copied: from, to, number.
    copies: Vec<(FsBlock, FsBlock, u64)>,
}

/// The journal's new tree.
#[derive(Debug)]
struct Tree {
    root: [u8; 60],
    nodes: Vec<(FsBlock, Vec<u8>)>,
}

impl Plan {
    fn new(new: &Superblock, before: &[Run], space: &mut FreeSpace) -> Result<Self> {
        let mut plan = Self {
            runs: Vec::new(),
            copies: Vec::new(),
        };
        for run in before {
            let inside = new.blocks_count.saturating_sub(run.fs_block.0);
            let inside = u32::try_from(inside).unwrap_or(u32::MAX);
            let split = run.file_block.0.saturating_add(inside);
            if let Some(kept) = run.ending_at(u64::from(split)) {
                plan.push(kept);
            }
            let mut left = run.starting_at(FileBlock(split));
            while let Some(outside) = left {
                let (to, len) = space.take(u64::from(outside.len_blocks))?;
                plan.copies.push((outside.fs_block, to, len));
                let len = u32::try_from(len).unwrap_or(u32::MAX);
                plan.push(Run {
                    fs_block: to,
                    len_blocks: len,
                    ..outside
                });
                left = outside.starting_at(FileBlock(outside.file_block.0.saturating_add(len)));
            }
        }
        Ok(plan)
    }

    /// Adds a run, in pieces that an extent can map.
    fn push(&mut self, run: Run) {
        let mut left = Some(run);
        while let Some(run) = left {
            let end = run.file_block.0.saturating_add(LEN_MAX);
            self.runs.extend(run.ending_at(u64::from(end)));
            left = run.starting_at(FileBlock(end));
        }
    }

    /// Builds the tree or map of the new runs, with its nodes in free blocks.
    fn tree(&self, new: &Superblock, inode: &Inode, space: &mut FreeSpace) -> Result<Tree> {
        let block_bytes = new.block_size.len();
        let extents = inode.has(InodeFlags::EXTENTS);
        let data_blocks = self.runs.last().map_or(0, Run::end);
        let count = if extents {
            tree_blocks_for(len_u64(self.runs.len()), block_bytes)
        } else {
            map_blocks_for(data_blocks, len_u64(block_bytes.wrapping_div(4)))
        };
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(space.take(1)?.0);
        }
        let built = if extents {
            NewTree::new(inode.checksum_seed, block_bytes, &self.runs, &places).map(|tree| Tree {
                root: tree.root,
                nodes: tree.nodes,
            })
        } else {
            self.map(block_bytes, data_blocks, places)
        };
        built.ok_or_else(|| {
            let reason = "the journal has no place below block 2^32";
            Error::new(ErrorKind::NoSpace, reason)
        })
    }

    fn map(&self, block_bytes: usize, data_blocks: u64, places: Vec<FsBlock>) -> Option<Tree> {
        // The order in which the map uses blocks for data and for itself.
        let order = NewMap::new(block_bytes, data_blocks, (0..).map(FsBlock))?;
        let is_node: std::collections::BTreeSet<FsBlock> =
            order.nodes.iter().map(|(block, _)| *block).collect();
        let total = order.data.len().saturating_add(order.nodes.len());
        let mut data = self
            .runs
            .iter()
            .flat_map(|run| (0..u64::from(run.len_blocks)).map(|nth| run.fs_block.after(nth)));
        let mut places = places.into_iter();
        let blocks = (0..len_u64(total)).map_while(|nth| {
            if is_node.contains(&FsBlock(nth)) {
                places.next()
            } else {
                data.next()
            }
        });
        let map = NewMap::new(block_bytes, data_blocks, blocks)?;
        Some(Tree {
            root: map.root(),
            nodes: map.nodes,
        })
    }

    fn copy(&self, volume: &Volume, writer: &DeviceWriter) -> Result<()> {
        let size = volume.superblock.block_size;
        let step = u64::from(COPY_BYTES.wrapping_shr(size.bits()).max(1));
        for (from, to, len) in &self.copies {
            let mut done = 0;
            while done < *len {
                let now = len.saturating_sub(done).min(step);
                let mut bytes = vec![0; index(size.bytes_of(now))];
                volume.read_device(size.byte_of(from.after(done)), &mut bytes)?;
                writer.write_block(to.after(done), &bytes)?;
                done = done.saturating_add(now);
            }
        }
        Ok(())
    }
}

/// Stores an inode. Returns the block that contains it.
fn put_inode(edits: &mut Edits<'_>, inode: &Inode) -> Result<FsBlock> {
    let volume = edits.volume();
    let (block, offset) = inode_table::block_of_inode(volume, inode.number)?;
    let end = offset.saturating_add(usize::from(volume.superblock.inode_size));
    edits.change(block, |bytes| {
        let bytes = bytes.get_mut(offset..end).unwrap_or_default();
        inode::encode(&volume.superblock, inode, bytes)
    })??;
    Ok(block)
}

/// Sums the free blocks of all groups.
fn free_blocks(edits: &Edits<'_>) -> Result<u64> {
    let superblock = &edits.volume().superblock;
    let mut clusters = 0u64;
    for group in 0..superblock.groups_count {
        clusters = clusters.saturating_add(u64::from(edits.descriptor(group)?.free_clusters));
    }
    Ok(clusters.wrapping_shl(superblock.cluster_ratio_bits))
}

fn change_superblock(raw: &mut RawSuperblock, journal: &Inode, free_blocks: u64) {
    /// `s_jnl_backup_type` if the superblock has a copy of the journal's `i_block` and size.
    const BACKUP_BLOCKS: u8 = 1;
    let (high, low) = split64(free_blocks);
    raw.s_free_blocks_count_lo.set(low);
    raw.s_free_blocks_count_hi.set(high);
    let features = raw.s_feature_incompat.get() | Incompatible::NEEDS_RECOVERY.bits();
    raw.s_feature_incompat.set(features);
    if raw.s_jnl_backup_type == BACKUP_BLOCKS {
        for (offset, copy) in (0..journal.block.len())
            .step_by(4)
            .zip(&mut raw.s_jnl_blocks)
        {
            copy.set(le32(&journal.block, offset).unwrap_or(0));
        }
    }
}
