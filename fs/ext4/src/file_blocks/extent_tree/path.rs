//! The path from an inode down to the leaf that maps a file block.

use std::ops::Range;

use crate::block::{FileBlock, FsBlock};
use crate::error::{Result, Structure, malformed};
use crate::inode::Inode;
use crate::run::Run;
use crate::volume::Volume;

use super::node::{self, RawExtent};
use super::{Level, NodeBytes, Walk};

/// A node on the path.
#[derive(Debug, Clone)]
pub(super) struct PathNode {
    /// The node's block, or `None` for the root, in the inode.
    pub(super) block: Option<FsBlock>,
    pub(super) depth: u16,
    pub(super) entries: usize,
    /// The number of entries that fit into the node.
    pub(super) max: usize,
    /// The entry through which the path continues; in the leaf, the first that ends after the file
    /// block.
    pub(super) position: usize,
}

impl PathNode {
    fn of(level: &Level) -> Self {
        Self {
            block: match level.bytes {
                NodeBytes::Root(_) => None,
                NodeBytes::Block(block, _) => Some(block),
            },
            depth: level.depth,
            entries: usize::from(level.entries),
            max: node::max(level.bytes.get()),
            // A walk has already stepped past the entry that it went down through.
            position: match level.depth {
                0 => level.next,
                _ => level.next.saturating_sub(1),
            },
        }
    }
}

/// The path to a leaf. See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Path {
    /// The file block that the path leads to.
    pub(super) to: FileBlock,
    /// The nodes from the root to the leaf; never empty.
    pub(super) stops: Vec<PathNode>,
    leaf: Level,
}

impl Path {
    /// Finds the leaf for a file block. Every node on the path is checked.
    pub(in super::super) fn find(volume: &Volume, inode: &Inode, to: FileBlock) -> Result<Self> {
        let mut walk = Walk::new(volume, inode, to);
        while let Some(step) = walk.step() {
            step?;
            let stops = || walk.levels.iter().map(PathNode::of).collect();
            if walk.levels.last().is_some_and(|level| level.depth == 0) {
                let stops = stops();
                return match walk.levels.pop() {
                    Some(leaf) => Ok(Self { to, stops, leaf }),
                    None => break,
                };
            }
        }
        let structure = Structure::Inode(inode.number);
        Err(malformed(structure, "its extent tree has no leaf"))
    }

    /// Returns only the stops: the leaf's contents are dropped, so changing the leaf needs no copy.
    pub(super) fn into_stops(self) -> Vec<PathNode> {
        self.stops
    }

    fn extents(&self) -> &[RawExtent] {
        self.leaf.extents()
    }

    /// Returns an extent of the leaf.
    pub(super) fn run(&self, nth: usize) -> Option<Run> {
        self.extents().get(nth).map(RawExtent::run)
    }

    /// Returns the position of the first extent that ends after the file block.
    pub(super) const fn position(&self) -> usize {
        self.leaf.next
    }

    /// Returns the first extent that ends after the file block, or `None` if the leaf has none.
    pub(in super::super) fn first_extent(&self) -> Option<Run> {
        self.run(self.leaf.next)
    }

    /// Returns the extent before that one, in the same leaf.
    pub(in super::super) fn before(&self) -> Option<Run> {
        self.run(self.leaf.next.checked_sub(1)?)
    }

    /// Returns the extent after that one, in the same leaf.
    pub(super) fn after(&self) -> Option<Run> {
        self.run(self.leaf.next.saturating_add(1))
    }

    /// Returns the file blocks that the leaf may map.
    pub(in super::super) fn range(&self) -> Range<u64> {
        self.leaf.range.clone()
    }
}

/// Returns the first extent that ends after file block `from`, if it begins before `until`.
pub(in super::super) fn next_run(
    volume: &Volume,
    inode: &Inode,
    from: u64,
    until: u64,
) -> Result<Option<Run>> {
    let mut at = from;
    while let Some(block) = u32::try_from(at).ok().filter(|_| at < until) {
        let path = Path::find(volume, inode, FileBlock(block))?;
        if let Some(here) = path.first_extent() {
            return Ok(Some(here).filter(|here| u64::from(here.file_block.0) < until));
        }
        at = path.range().end;
    }
    Ok(None)
}

/// Returns the nodes on the path to a file block, besides the root, and the end of the leaf.
pub(in super::super) fn nodes_at(
    volume: &Volume,
    inode: &Inode,
    at: FileBlock,
) -> Result<(Vec<FsBlock>, u64)> {
    let path = Path::find(volume, inode, at)?;
    let nodes = path.stops.iter().filter_map(|stop| stop.block).collect();
    Ok((nodes, path.range().end))
}

/// Returns the end of the last extent.
pub(in super::super) fn end_of(volume: &Volume, inode: &Inode) -> Result<u64> {
    let path = Path::find(volume, inode, FileBlock(u32::MAX))?;
    let last = path.first_extent().or(path.before());
    Ok(last.map_or(0, |last| last.end()))
}
