//! Changes of an extent tree.
//!
//! Every change replaces some entries of one leaf. The blocks that it needs (for the second half of
//! a full node, or for the root's entries) are allocated before anything is changed, so that a full
//! disk leaves the tree as it was. A node without entries is freed.

use std::ops::Range;
use std::sync::Arc;

use crate::block::{FileBlock, FsBlock};
use crate::error::{Result, Structure, malformed};
use crate::file_blocks::allocation;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::metadata_cache::{Key, zeroed};
use crate::run::Run;
use crate::volume::Volume;

use super::node::{self, DEPTH_MAX, RawEntry};
use super::path::{Path, PathNode};

/// An editor of the tree of one inode. The caller stores the inode afterwards.
#[derive(Debug)]
pub(in super::super) struct Editor<'e, 'c> {
    pub(in super::super) handle: &'e Handle<'c>,
    pub(in super::super) inode: &'e mut Inode,
    /// Blocks that were allocated for new nodes.
    spare: Vec<FsBlock>,
}

impl<'e, 'c> Editor<'e, 'c> {
    pub(in super::super) fn new(handle: &'e Handle<'c>, inode: &'e mut Inode) -> Self {
        Self {
            handle,
            inode,
            spare: Vec::new(),
        }
    }

    pub(in super::super) fn volume(&self) -> &'c Volume {
        self.handle.volume()
    }

    /// Finds the leaf for a file block.
    pub(in super::super) fn find(&self, to: FileBlock) -> Result<Path> {
        Path::find(self.volume(), self.inode, to)
    }

    /// Replaces entries of a leaf by `runs`, which must keep the order.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
    pub(in super::super) fn put(
        &mut self,
        path: Path,
        removed: Range<usize>,
        runs: &[Run],
    ) -> Result<()> {
        let new: Vec<RawEntry> = runs.iter().map(RawEntry::extent).collect();
        let to = path.to;
        let stops = path.into_stops();
        self.allocate_for_splits(&stops, &removed, new.len())?;
        let shrinks = new.len() < removed.len();
        self.replace(&stops, removed, &new)?;
        if shrinks && stops.len() > 1 {
            self.narrow(to)?;
        }
        Ok(())
    }

    /// Replaces a window of entries around a leaf's position like [`put`](Self::put), but skips the
    /// entries at both ends that stay as they are.
    pub(in super::super) fn put_changed(
        &mut self,
        path: Path,
        window: Range<usize>,
        runs: &[Run],
    ) -> Result<()> {
        let old: Vec<Run> = window.clone().filter_map(|nth| path.run(nth)).collect();
        let same = |(a, b): &(&Run, &Run)| a == b;
        let before = old.iter().zip(runs).take_while(same).count();
        let (old_left, new_left) = (
            old.get(before..).unwrap_or_default(),
            runs.get(before..).unwrap_or_default(),
        );
        let after = old_left
            .iter()
            .rev()
            .zip(new_left.iter().rev())
            .take_while(same)
            .count();
        let removed = window.start.saturating_add(before)..window.end.saturating_sub(after);
        let new = new_left.get(..new_left.len().saturating_sub(after));
        let new = new.unwrap_or_default();
        if removed.is_empty() && new.is_empty() {
            return Ok(());
        }
        self.put(path, removed, new)
    }

    /// Allocates the blocks that a change will need for new nodes: one for each full node, from the
    /// leaf upwards.
    fn allocate_for_splits(
        &mut self,
        stops: &[PathNode],
        removed: &Range<usize>,
        new: usize,
    ) -> Result<()> {
        let mut count = 0usize;
        let mut growth = new;
        let mut shrinkage = removed.len();
        for stop in stops.iter().rev() {
            let len = stop
                .entries
                .saturating_sub(shrinkage)
                .saturating_add(growth);
            if len <= stop.max {
                break;
            }
            if stop.block.is_none() && stop.depth >= DEPTH_MAX {
                return Err(self.malformed("its extent tree is full at the maximum depth"));
            }
            count = count.saturating_add(1);
            (growth, shrinkage) = (1, 0);
        }
        let goal = stops.last().and_then(|leaf| leaf.block);
        let goal = goal.unwrap_or_else(|| self.handle.allocator.goal_for(self.inode));
        while self.spare.len() < count {
            match allocation::allocate_tree_block(self.handle, self.inode, goal) {
                Ok(block) => self.spare.push(block),
                Err(e) => {
                    self.free_spare_blocks()?;
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    fn free_spare_blocks(&mut self) -> Result<()> {
        while let Some(block) = self.spare.pop() {
            allocation::undo_tree_block(self.handle, self.inode, block)?;
        }
        Ok(())
    }

    fn malformed(&self, problem: &'static str) -> crate::error::Error {
        malformed(Structure::Inode(self.inode.number), problem)
    }

    /// Replaces entries of the last of these nodes.
    fn replace(
        &mut self,
        stops: &[PathNode],
        removed: Range<usize>,
        new: &[RawEntry],
    ) -> Result<()> {
        let Some((stop, above)) = stops.split_last() else {
            return Err(self.malformed("its extent tree has no nodes"));
        };
        let kept = stop.entries.saturating_sub(removed.len());
        let len = kept.saturating_add(new.len());
        match stop.block {
            Some(block) if len == 0 => self.remove_node(block, above),
            _ if len <= stop.max => self.splice(stop, above, removed, new),
            Some(block) => self.split(block, stop, above, removed, new),
            None => self.grow(stop, removed, new),
        }
    }

    pub(super) fn remove_node(&mut self, block: FsBlock, above: &[PathNode]) -> Result<()> {
        allocation::free_tree_block(self.handle, self.inode, block)?;
        let position = above.last().map_or(0, |parent| parent.position);
        self.replace(above, position..position.saturating_add(1), &[])
    }

    fn splice(
        &mut self,
        stop: &PathNode,
        above: &[PathNode],
        removed: Range<usize>,
        new: &[RawEntry],
    ) -> Result<()> {
        let first_changes = removed.start == 0;
        let key = self.change_node(stop.block, |bytes| {
            node::splice(bytes, removed.start, removed.len(), new);
            node::first_key(bytes)
        })?;
        match key {
            Some(key) if first_changes => self.set_keys(above, key),
            Some(_) => Ok(()),
            // Only the root can become empty, and an empty root is a leaf.
            None => self.change_node(stop.block, |bytes| node::set_depth(bytes, 0)),
        }
    }

    /// Updates the key of the node below in the nodes above, as far as necessary.
    pub(super) fn set_keys(&mut self, above: &[PathNode], key: u32) -> Result<()> {
        for stop in above.iter().rev() {
            self.change_node(stop.block, |bytes| node::set_key(bytes, stop.position, key))?;
            if stop.position > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Splits a node into two.
    fn split(
        &mut self,
        block: FsBlock,
        stop: &PathNode,
        above: &[PathNode],
        removed: Range<usize>,
        new: &[RawEntry],
    ) -> Result<()> {
        let all = self.spliced(stop, &removed, new)?;
        // Appending leaves full nodes behind.
        let at = if removed.end == stop.entries {
            stop.max
        } else {
            all.len().wrapping_div(2)
        };
        let (left, right) = all.split_at_checked(at).unwrap_or((&all, &[]));
        let (Some(first), Some(second)) = (left.first(), right.first()) else {
            return Err(self.malformed("a node of its extent tree has no room"));
        };
        self.change_node(Some(block), |bytes| {
            node::splice(bytes, 0, stop.entries, left);
        })?;
        let other = self.new_node(stop.depth, right)?;
        if removed.start == 0 {
            self.set_keys(above, first.key.get())?;
        }
        let position = above.last().map_or(0, |parent| parent.position);
        let behind = position.saturating_add(1);
        let entry = RawEntry::index(second.key.get(), other);
        self.replace(above, behind..behind, &[entry])
    }

    /// Moves the root's entries to a block, which has room for more.
    fn grow(&mut self, root: &PathNode, removed: Range<usize>, new: &[RawEntry]) -> Result<()> {
        let all = self.spliced(root, &removed, new)?;
        let key = all.first().map_or(0, |entry| entry.key.get());
        let child = self.new_node(root.depth, &all)?;
        let entry = RawEntry::index(key, child);
        self.change_node(None, |bytes| {
            node::fill(bytes, root.depth.saturating_add(1), &[entry]);
        })
    }

    /// Returns a node's entries as they will be after the change.
    fn spliced(
        &self,
        stop: &PathNode,
        removed: &Range<usize>,
        new: &[RawEntry],
    ) -> Result<Vec<RawEntry>> {
        let held;
        let bytes: &[u8] = match stop.block {
            None => &self.inode.block,
            Some(block) => {
                held = self.node(block)?;
                &held
            }
        };
        let old = node::all_entries(bytes);
        let part = |range: Range<usize>| old.get(range).unwrap_or_default();
        Ok([part(0..removed.start), new, part(removed.end..old.len())].concat())
    }

    pub(super) fn node(&self, block: FsBlock) -> Result<Arc<[u8]>> {
        let structure = Structure::ExtentBlock(block);
        self.volume().checked_block(self.key(block), |bytes| {
            node::verify(self.inode, structure, bytes)
        })
    }

    pub(super) fn key(&self, block: FsBlock) -> Key {
        Key::extent_block(self.inode.number, block)
    }

    /// Writes a new node to a block that was allocated for it.
    fn new_node(&mut self, depth: u16, entries: &[RawEntry]) -> Result<FsBlock> {
        let Some(block) = self.spare.pop() else {
            return Err(self.malformed("a node of its extent tree was changed concurrently"));
        };
        let mut bytes = zeroed(self.volume().superblock.block_size.len());
        if let Some(bytes) = Arc::get_mut(&mut bytes) {
            node::fill(bytes, depth, entries);
            node::update_checksum(self.inode.checksum_seed, bytes);
        }
        self.handle.replace(self.key(block), bytes);
        Ok(block)
    }

    /// Changes a node: the root, or a node in a block.
    pub(super) fn change_node<R>(
        &mut self,
        block: Option<FsBlock>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let Some(block) = block else {
            return Ok(change(&mut self.inode.block));
        };
        let seed = self.inode.checksum_seed;
        self.handle.change(self.key(block), |bytes| {
            let result = change(bytes);
            node::update_checksum(seed, bytes);
            result
        })
    }
}
