//! A walk along an extent tree that reports problems and goes on.

use std::ops::Range;

use super::context::Context;
use super::finding::FindingKind;
use super::tree::{TreeVisitor, out_of_range};
use crate::block::FsBlock;
use crate::bytes::{le32, len_u64};
use crate::error::{Result, Structure};
use crate::file_blocks::extent_node::{
    DEPTH_MAX, ENTRY_BYTES, RawExtent, RawHeader, RawIndex, entries, header, verify,
};
use crate::inode::Inode;

/// Walks along the extent tree of an inode.
pub(super) fn walk(
    context: &Context<'_>,
    inode: &Inode,
    visitor: &mut dyn TreeVisitor,
) -> Result<()> {
    let root = Node {
        structure: Structure::Inode(inode.number),
        block: None,
        bytes: &inode.block,
        depth: None,
        range: 0..1 << 32,
    };
    ExtentWalk { context, inode }.node(&root, visitor)
}

struct ExtentWalk<'a> {
    context: &'a Context<'a>,
    inode: &'a Inode,
}

/// A node of an extent tree.
struct Node<'a> {
    structure: Structure,
    block: Option<FsBlock>,
    bytes: &'a [u8],
    /// The depth that the parent requires; `None` for the root.
    depth: Option<u16>,
    /// The file blocks that the node may map.
    range: Range<u64>,
}

impl ExtentWalk<'_> {
    /// The depth decreases with each level, so the recursion is at most `DEPTH_MAX` deep.
    fn node(&self, node: &Node<'_>, visitor: &mut dyn TreeVisitor) -> Result<()> {
        let header = match header(node.structure, node.bytes) {
            Ok(header) => header,
            Err(e) => {
                visitor.problem(FindingKind::ExtentTree, node.block, e.to_string());
                return Ok(());
            }
        };
        if node.block.is_some()
            && let Err(e) = verify(self.inode, node.structure, node.bytes)
        {
            visitor.problem(FindingKind::ExtentChecksum, node.block, e.to_string());
        }
        check_room(node, header, visitor);
        let depth = header.eh_depth.get();
        let expected = node.depth.unwrap_or(depth);
        if depth != expected || depth > DEPTH_MAX {
            let expected = expected.min(DEPTH_MAX);
            let detail = format!(
                "{}: eh_depth is {depth}, expected {expected}",
                node.structure
            );
            visitor.problem(FindingKind::ExtentTree, node.block, detail);
            return Ok(());
        }
        let count = header.eh_entries.get();
        if depth == 0 {
            return self.leaf(node, entries(node.bytes, count), visitor);
        }
        self.children(node, depth, entries(node.bytes, count), visitor)
    }

    fn leaf(
        &self,
        node: &Node<'_>,
        extents: &[RawExtent],
        visitor: &mut dyn TreeVisitor,
    ) -> Result<()> {
        let mut free_from = node.range.start;
        for run in extents.iter().map(RawExtent::run) {
            let first = u64::from(run.file_block.0);
            let problem = if run.len_blocks == 0 {
                Some("has length 0")
            } else if first < free_from {
                Some("is out of order or overlaps the one before")
            } else if run.end() > node.range.end {
                Some("reaches past the range of its node")
            } else {
                None
            };
            if let Some(problem) = problem {
                let detail = format!(
                    "{}: the extent of file block {first} {problem}",
                    node.structure
                );
                visitor.problem(FindingKind::ExtentTree, node.block, detail);
                if run.len_blocks == 0 {
                    continue;
                }
            }
            free_from = free_from.max(run.end());
            let len = u64::from(run.len_blocks);
            if self.context.superblock().holds(run.fs_block, len) {
                visitor.run(run)?;
            } else {
                out_of_range(self.context, node.structure, run.fs_block, len, visitor);
            }
        }
        Ok(())
    }

    fn children(
        &self,
        node: &Node<'_>,
        depth: u16,
        indices: &[RawIndex],
        visitor: &mut dyn TreeVisitor,
    ) -> Result<()> {
        if indices.is_empty() {
            let detail = format!("{}: an index node has no entries", node.structure);
            visitor.problem(FindingKind::ExtentTree, node.block, detail);
        }
        let mut free_from = node.range.start;
        for (nth, child) in indices.iter().enumerate() {
            let start = u64::from(child.ei_block.get());
            let next = indices.get(nth.saturating_add(1));
            let end = next.map_or(node.range.end, |next| u64::from(next.ei_block.get()));
            if start < free_from || start >= end {
                let detail = format!(
                    "{}: the index of file block {start} is out of order",
                    node.structure
                );
                visitor.problem(FindingKind::ExtentTree, node.block, detail);
            }
            free_from = start.saturating_add(1);
            self.child(node, child, depth.saturating_sub(1), start..end, visitor)?;
        }
        Ok(())
    }

    fn child(
        &self,
        parent: &Node<'_>,
        entry: &RawIndex,
        depth: u16,
        range: Range<u64>,
        visitor: &mut dyn TreeVisitor,
    ) -> Result<()> {
        let block = entry.child();
        if !self.context.superblock().holds(block, 1) {
            out_of_range(self.context, parent.structure, block, 1, visitor);
            return Ok(());
        }
        if !visitor.node(block)? {
            return Ok(());
        }
        let bytes = self.context.volume.read_blocks(block, 1)?;
        let first_key = le32(&bytes, ENTRY_BYTES).map(u64::from);
        let has_entries =
            le32(&bytes, 0).is_some_and(|magic_and_entries| magic_and_entries >> 16 != 0);
        if has_entries && first_key != Some(range.start) {
            let detail = format!(
                "{}: the index starts at file block {}, but its node at {}",
                parent.structure,
                range.start,
                first_key.unwrap_or(0)
            );
            visitor.problem(FindingKind::ExtentTree, Some(block), detail);
        }
        let node = Node {
            structure: Structure::ExtentBlock(block),
            block: Some(block),
            bytes: &bytes,
            depth: Some(depth),
            range,
        };
        self.node(&node, visitor)
    }
}

/// Checks `eh_max`, which is the room of the node, or up to two entries less, for a checksum.
fn check_room(node: &Node<'_>, header: &RawHeader, visitor: &mut dyn TreeVisitor) {
    const SPARE: u64 = 2;
    let entries_bytes = node.bytes.len().saturating_sub(ENTRY_BYTES);
    let room = len_u64(entries_bytes.wrapping_div(ENTRY_BYTES));
    let max = u64::from(header.eh_max.get());
    if max < room.saturating_sub(SPARE) {
        let detail = format!("{}: eh_max is {max}, expected {room}", node.structure);
        visitor.problem(FindingKind::ExtentTree, node.block, detail);
    }
}
