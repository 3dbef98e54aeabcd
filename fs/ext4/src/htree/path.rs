//! The path from the root of an index down to the leaf for a hash, and to the leaves after it.

use diskfs_vfs::Result;

use crate::block::FileBlock;

use super::dx_entry::DxTable;
use super::hash::NameHash;
use super::lookup::{Blocks, Directory};
use super::{dx_node, dx_root};

/// An index block on the path to a leaf, and the entry through which the path continues.
pub(super) struct Frame<B> {
    pub(super) number: FileBlock,
    bytes: B,
    offset: usize,
    pub(super) position: usize,
}

/// The index blocks from the root down to a leaf.
pub(super) struct Path<'a, B: Blocks> {
    directory: &'a Directory,
    blocks: &'a B,
    pub(super) frames: Vec<Frame<B::Block>>,
}

impl<'a, B: Blocks> Path<'a, B> {
    pub(super) fn to_hash(
        directory: &'a Directory,
        blocks: &'a B,
        root: B::Block,
        levels: u8,
        hash: NameHash,
    ) -> Result<Self> {
        let mut path = Self {
            directory,
            blocks,
            frames: Vec::new(),
        };
        path.push(FileBlock(0), root, dx_root::TABLE_OFFSET, |table| {
            table.position_of(hash)
        })?;
        for _ in 0..levels {
            path.descend(|table| table.position_of(hash))?;
        }
        Ok(path)
    }

    /// Returns the leaf that the last frame refers to.
    pub(super) fn leaf(&self) -> Result<FileBlock> {
        let Some(frame) = self.frames.last() else {
            return Ok(FileBlock(0));
        };
        let table = self.table(frame)?;
        // The position comes from the table itself. Block 0 is the root and never a leaf.
        Ok(table.block(frame.position).unwrap_or(FileBlock(0)))
    }

    /// Returns the table of a frame.
    pub(super) fn table<'f>(&self, frame: &'f Frame<B::Block>) -> Result<DxTable<'f>> {
        self.directory
            .table(frame.number, frame.bytes.as_ref(), frame.offset)
    }

    fn push(
        &mut self,
        number: FileBlock,
        bytes: B::Block,
        offset: usize,
        position: impl Fn(&DxTable<'_>) -> usize,
    ) -> Result<()> {
        let position = position(&self.directory.table(number, bytes.as_ref(), offset)?);
        self.frames.push(Frame {
            number,
            bytes,
            offset,
            position,
        });
        Ok(())
    }

    /// Adds the index block that the last frame refers to.
    fn descend(&mut self, position: impl Fn(&DxTable<'_>) -> usize) -> Result<()> {
        let number = self.leaf()?;
        let bytes = self.blocks.block(number)?;
        if !dx_node::is_node(bytes.as_ref(), self.directory.block_size) {
            return Err(self.directory.malformed(number, &NotANode));
        }
        self.push(number, bytes, dx_node::TABLE_OFFSET, position)
    }

    /// Returns the hash with which the next leaf begins, or `None` after the last leaf. Its low bit
    /// is set if names with that hash began in the current leaf.
    pub(super) fn next_hash(&self) -> Result<Option<u32>> {
        for frame in self.frames.iter().rev() {
            let next = self.table(frame)?.hash(frame.position.saturating_add(1));
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Moves on to the next leaf, which must exist.
    pub(super) fn step(&mut self) -> Result<()> {
        let levels = self.frames.len();
        while let Some(mut frame) = self.frames.pop() {
            frame.position = frame.position.saturating_add(1);
            if frame.position < self.table(&frame)?.count() {
                self.frames.push(frame);
                break;
            }
        }
        while self.frames.len() < levels {
            self.descend(|_| 0)?;
        }
        Ok(())
    }

    /// Moves on to the next leaf if names with `hash` continue there.
    pub(super) fn advance(&mut self, hash: NameHash) -> Result<bool> {
        let continues = self.next_hash()? == Some(hash.0 | 1);
        if continues {
            self.step()?;
        }
        Ok(continues)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it does not begin with one unused entry")]
struct NotANode;

#[derive(Debug, thiserror::Error)]
#[error("the index refers to it as a leaf")]
pub(super) struct NotALeaf;
