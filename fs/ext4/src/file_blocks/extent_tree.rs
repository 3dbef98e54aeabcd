//! Extent trees: reading them.
//!
//! The root is in the inode's `i_block`; below it are up to five levels of blocks. A walk goes down
//! one level at each step, so a loop in the image cannot make it endless. Each block must be within
//! the range that its parent gives it, so the walk meets no block with entries twice.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Extent Tree".

mod clusters;
mod edit;
mod map;
mod narrow;
mod new_tree;
pub(crate) mod node;
mod path;
mod relocate;
mod remove;
mod shift;

use std::ops::Range;
use std::sync::Arc;

use super::{BlockMapping, Hole, WalkStep};
use crate::block::{FileBlock, FsBlock};
use crate::error::{Corrupt, Result, Structure, malformed};
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::superblock::Superblock;
use crate::volume::Volume;

use node::{DEPTH_MAX, RawExtent, RawIndex, entries, header, verify};

pub(super) use edit::Editor;
pub(crate) use new_tree::{NewTree, tree_blocks_for};
pub(super) use node::empty_root;
use path::Path;
pub(super) use path::{end_of, next_run, nodes_at};
pub(super) use remove::fits_in_one_step;

/// The place of a node, and with it the owner of its bytes.
#[derive(Debug, Clone)]
enum NodeBytes {
    Root([u8; 60]),
    Block(FsBlock, Arc<[u8]>),
}

impl NodeBytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Root(bytes) => &bytes[..],
            Self::Block(_, bytes) => bytes,
        }
    }
}

/// A node of the tree during a walk: its entries are checked, and the next one is known.
#[derive(Debug)]
struct Level {
    bytes: NodeBytes,
    depth: u16,
    entries: u16,
    next: usize,
    /// The file blocks that the node may map.
    range: Range<u64>,
}

impl Level {
    fn extents(&self) -> &[RawExtent] {
        entries(self.bytes.get(), self.entries)
    }

    fn indices(&self) -> &[RawIndex] {
        entries(self.bytes.get(), self.entries)
    }

    /// Returns the position of the entry to begin with, in order to see block `from`.
    fn seek(&mut self, from: FileBlock) {
        self.next = if self.depth == 0 {
            self.extents()
                .partition_point(|extent| extent.run().end() <= u64::from(from.0))
        } else {
            self.indices()
                .partition_point(|index| index.ei_block.get() <= from.0)
                .saturating_sub(1)
        };
    }
}

/// A walk along the extents of an inode.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    from: FileBlock,
    /// The nodes from the root down to the current one; empty before the first step and after the
    /// last.
    levels: Vec<Level>,
    started: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(volume: &'a Volume, inode: &'a Inode, from: FileBlock) -> Self {
        Self {
            volume,
            inode,
            from,
            levels: Vec::new(),
            started: false,
        }
    }

    /// Returns the next extent, or does one step towards it. Returns `None` at the end.
    pub(super) fn step(&mut self) -> Option<Result<WalkStep>> {
        if !self.started {
            self.started = true;
            return Some(self.start());
        }
        let level = self.levels.last_mut()?;
        let position = level.next;
        level.next = position.saturating_add(1);
        if level.depth == 0 {
            if let Some(extent) = level.extents().get(position) {
                return Some(Ok(WalkStep::Run(extent.run())));
            }
        } else if let Some(index) = level.indices().get(position) {
            let child = index.child();
            let end = level.indices().get(position.saturating_add(1));
            let end = end.map_or(level.range.end, |next| u64::from(next.ei_block.get()));
            let range = u64::from(index.ei_block.get())..end;
            let depth = level.depth.saturating_sub(1);
            return Some(self.descend(child, depth, range));
        }
        self.levels.pop();
        Some(Ok(WalkStep::Nothing))
    }

    fn start(&mut self) -> Result<WalkStep> {
        let structure = Structure::Inode(self.inode.number);
        let bytes = NodeBytes::Root(self.inode.block);
        let header = header(structure, bytes.get())?;
        let depth = header.eh_depth.get();
        if depth > DEPTH_MAX {
            return Err(Corrupt::Field {
                structure,
                field: "eh_depth",
                value: u64::from(depth),
                range: "0 to 5",
            }
            .into());
        }
        self.push(structure, bytes, depth, 0..1 << 32)
    }

    fn descend(&mut self, block: FsBlock, depth: u16, range: Range<u64>) -> Result<WalkStep> {
        let structure = Structure::ExtentBlock(block);
        let superblock = &self.volume.superblock;
        superblock.check_blocks(Structure::Inode(self.inode.number), block, 1)?;
        let key = Key::extent_block(self.inode.number, block);
        let bytes = self
            .volume
            .checked_block(key, |bytes| verify(self.inode, structure, bytes))?;
        self.push(structure, NodeBytes::Block(block, bytes), depth, range)
            .map_err(|e| e.at(superblock.block_size.byte_of(block)))
    }

    fn push(
        &mut self,
        structure: Structure,
        bytes: NodeBytes,
        depth: u16,
        range: Range<u64>,
    ) -> Result<WalkStep> {
        let header = header(structure, bytes.get())?;
        if header.eh_depth.get() != depth {
            return Err(malformed(
                structure,
                "its depth is not one less than its parent's",
            ));
        }
        let mut level = Level {
            depth,
            entries: header.eh_entries.get(),
            next: 0,
            range,
            bytes,
        };
        if depth == 0 {
            check_extents(&self.volume.superblock, structure, &level)?;
        } else {
            check_indices(structure, &level)?;
        }
        level.seek(self.from);
        self.levels.push(level);
        Ok(WalkStep::Nothing)
    }
}

/// Returns the mapping of a file block.
pub(super) fn mapping_at(
    volume: &Volume,
    inode: &Inode,
    at: FileBlock,
    until: u64,
) -> Result<BlockMapping> {
    let path = Path::find(volume, inode, at)?;
    let here = path.first_extent();
    if let Some(run) = here.and_then(|here| here.starting_at(at))
        && run.file_block == at
    {
        return Ok(BlockMapping::Run(run));
    }
    let leaf_end = path.range().end;
    // The next leaf begins where this one ends.
    let end = here.map_or(leaf_end, |here| u64::from(here.file_block.0));
    Ok(BlockMapping::Hole(Hole {
        start: at,
        end: end.min(until),
        before: path.before(),
        after: here,
    }))
}

fn check_extents(superblock: &Superblock, structure: Structure, leaf: &Level) -> Result<()> {
    let mut free_from = leaf.range.start;
    for run in leaf.extents().iter().map(RawExtent::run) {
        if run.len_blocks == 0 {
            return Err(malformed(structure, "an extent has length 0"));
        }
        if u64::from(run.file_block.0) < free_from || run.end() > leaf.range.end {
            return Err(malformed(structure, "extents overlap or are out of order"));
        }
        superblock.check_blocks(structure, run.fs_block, u64::from(run.len_blocks))?;
        free_from = run.end();
    }
    Ok(())
}

fn check_indices(structure: Structure, node: &Level) -> Result<()> {
    if node.entries == 0 {
        return Err(malformed(
            structure,
            "an index node of the extent tree is empty",
        ));
    }
    let mut free_from = node.range.start;
    for index in node.indices() {
        let block = u64::from(index.ei_block.get());
        if block < free_from || block >= node.range.end {
            return Err(malformed(structure, "index entries are out of order"));
        }
        free_from = block.saturating_add(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
