//! Shrinking of trees: joining nodes that fit into one, and removing levels that are not needed.

use std::ops::RangeInclusive;

use super::edit::Editor;
use super::node::{self, RawIndex};
use super::path::PathNode;
use crate::block::{FileBlock, FsBlock};
use crate::error::{Result, Structure};
use crate::file_blocks::allocation;

impl Editor<'_, '_> {
    /// Joins the nodes on the path to a file block with their neighbours if both fit into one.
    pub(super) fn narrow(&mut self, to: FileBlock) -> Result<()> {
        let mut stops = self.find(to)?.into_stops();
        let mut above_leaf = 0usize;
        // The root is handled by `shorten`.
        while let Some(len) = stops.len().checked_sub(above_leaf).filter(|&len| len > 1) {
            if self.join_with_neighbour(stops.get(..len).unwrap_or_default())? {
                stops = self.find(to)?.into_stops();
            }
            above_leaf = above_leaf.saturating_add(1);
        }
        Ok(())
    }

    /// Joins the last of these nodes with the one before it, or else with the one after it. Returns
    /// true if they fit.
    fn join_with_neighbour(&mut self, stops: &[PathNode]) -> Result<bool> {
        let Some((own, above)) = stops.split_last() else {
            return Ok(false);
        };
        // Most nodes are too full to be joined; this is known without reading others.
        if own.entries > own.max.wrapping_div(2).saturating_add(1) {
            return Ok(false);
        }
        let position = above.last().map_or(0, |parent| parent.position);
        let before = position.checked_sub(1).map(|before| before..=position);
        let behind = position..=position.saturating_add(1);
        for pair in before.into_iter().chain([behind]) {
            if self.join_pair(own, above, pair)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves the entries of the second of two neighbours to the first if they fit there.
    fn join_pair(
        &mut self,
        own: &PathNode,
        above: &[PathNode],
        pair: RangeInclusive<usize>,
    ) -> Result<bool> {
        let Some((parent, further)) = above.split_last() else {
            return Ok(false);
        };
        let (first, second) = (
            self.child(parent, *pair.start())?,
            self.child(parent, *pair.end())?,
        );
        let (Some(first), Some(second)) = (first, second) else {
            return Ok(false);
        };
        let (left, right) = (self.node(first)?, self.node(second)?);
        let same_depth = node::depth(&left) == own.depth && node::depth(&right) == own.depth;
        let left_len = node::all_entries(&left).len();
        let room = node::max(&left).saturating_sub(left_len);
        let right = node::all_entries(&right).to_vec();
        drop(left);
        // One entry is left free, so that the next change does not split the node again.
        if !same_depth || right.len() >= room {
            return Ok(false);
        }
        self.change_node(Some(first), |bytes| {
            node::splice(bytes, left_len, 0, &right);
        })?;
        let mut above = further.to_vec();
        above.push(PathNode {
            position: *pair.end(),
            ..parent.clone()
        });
        self.remove_node(second, &above)?;
        Ok(true)
    }

    /// Returns the `nth` child of a node, if it exists.
    fn child(&self, parent: &PathNode, nth: usize) -> Result<Option<FsBlock>> {
        let held;
        let bytes: &[u8] = match parent.block {
            None => &self.inode.block,
            Some(block) => {
                held = self.node(block)?;
                &held
            }
        };
        let child = node::indices(bytes).get(nth).map(RawIndex::child);
        if let Some(child) = child {
            let owner = Structure::Inode(self.inode.number);
            self.volume().superblock.check_blocks(owner, child, 1)?;
        }
        Ok(child)
    }

    /// Moves the entries of the root's only child to the root, as long as they fit.
    pub(in super::super) fn shorten(&mut self) -> Result<()> {
        while let Some((child, depth)) = node::only_child(&self.inode.block) {
            let owner = Structure::Inode(self.inode.number);
            self.volume().superblock.check_blocks(owner, child, 1)?;
            let bytes = self.node(child)?;
            let entries = node::all_entries(&bytes);
            if entries.len() > node::ROOT_ENTRIES || node::depth(&bytes) != depth {
                break;
            }
            node::fill(&mut self.inode.block, depth, entries);
            drop(bytes);
            allocation::free_tree_block(self.handle, self.inode, child)?;
        }
        Ok(())
    }
}
