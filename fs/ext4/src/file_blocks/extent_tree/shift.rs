//! Moving extents within the file.

use std::ops::Range;

use super::edit::Editor;
use super::map::part_from;
use super::node;
use super::path::{Path, PathNode};
use crate::block::FileBlock;
use crate::error::Result;

impl Editor<'_, '_> {
    /// Moves the extents of the leaf for file block `at`, from `at` on, by `by` blocks towards the
    /// start. Nothing is mapped in the `by` blocks before `at`. Returns where the next leaf begins.
    pub(in super::super) fn move_down(
        &mut self,
        at: FileBlock,
        by: u32,
    ) -> Result<Option<FileBlock>> {
        let path = self.find(at)?;
        let next = path.range().end;
        self.move_keys(path, |key| key.saturating_sub(by))?;
        Ok(u32::try_from(next).ok().map(FileBlock))
    }

    /// Moves the last extents of `range` within one leaf by `by` blocks towards the end, where
    /// nothing is mapped. Returns the end of the extents before them.
    pub(in super::super) fn move_up(&mut self, range: &Range<u64>, by: u32) -> Result<Option<u64>> {
        let last = range.end.saturating_sub(1);
        let last = FileBlock(u32::try_from(last).unwrap_or(u32::MAX));
        let range_of_leaf = self.find(last)?.range();
        if range_of_leaf.start > u64::from(last.0) {
            return Ok(None);
        }
        let from = range.start.max(range_of_leaf.start);
        let from = FileBlock(u32::try_from(from).unwrap_or(u32::MAX));
        let path = self.find(from)?;
        self.move_keys(path, |key| key.saturating_add(by))?;
        let before = range_of_leaf.start;
        Ok(Some(before).filter(|&before| before > range.start && before < range.end))
    }

    /// Splits the extent that contains a file block, so that one begins there.
    pub(in super::super) fn split_at(&mut self, block: FileBlock) -> Result<()> {
        let path = self.find(block)?;
        let at = u64::from(block.0);
        let Some(here) = path.first_extent() else {
            return Ok(());
        };
        let (Some(before), Some(after)) = (here.ending_at(at), part_from(here, at)) else {
            return Ok(());
        };
        let position = path.position();
        self.put(path, position..position.saturating_add(1), &[before, after])
    }

    /// Changes the keys of a leaf from its position on, and those in the nodes above accordingly.
    fn move_keys(&mut self, path: Path, change: impl Fn(u32) -> u32) -> Result<()> {
        let stops: Vec<PathNode> = path.into_stops();
        let Some((leaf, above)) = stops.split_last() else {
            return Ok(());
        };
        let first = self.change_node(leaf.block, |bytes| {
            node::change_keys(bytes, leaf.position, change);
            node::first_key(bytes)
        })?;
        match first {
            Some(key) if leaf.position == 0 => self.set_keys(above, key),
            _ => Ok(()),
        }
    }
}
