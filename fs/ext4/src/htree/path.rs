//! From the root of an index down to the leaf of a hash, and on to the leaves behind it.

use diskfs_vfs::Result;

use crate::block::FileBlock;

use super::dx_entry::DxTable;
use super::hash::NameHash;
use super::lookup::{Blocks, Directory};
use super::{dx_node, dx_root};

/// An index block on the way to a leaf, and the entry in it that was taken.
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

    /// The leaf that the last frame leads to.
    pub(super) fn leaf(&self) -> Result<FileBlock> {
        let Some(frame) = self.frames.last() else {
            return Ok(FileBlock(0));
        };
        let table = self.table(frame)?;
        // A position comes from the table itself; block 0 is the root and no leaf of anything.
        Ok(table.block(frame.position).unwrap_or(FileBlock(0)))
    }

    /// The table of a frame.
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

    /// Adds the index block that the last frame leads to.
    fn descend(&mut self, position: impl Fn(&DxTable<'_>) -> usize) -> Result<()> {
        let number = self.leaf()?;
        let bytes = self.blocks.block(number)?;
        if !dx_node::is_node(bytes.as_ref(), self.directory.block_size) {
            return Err(self.directory.malformed(number, &NotANode));
        }
        self.push(number, bytes, dx_node::TABLE_OFFSET, position)
    }

    /// Where the hashes of the next leaf begin, with the low bit that says that names of that hash
    /// began in this one; `None` behind the last leaf.
    pub(super) fn next_hash(&self) -> Result<Option<u32>> {
        for frame in self.frames.iter().rev() {
            let next = self.table(frame)?.hash(frame.position.saturating_add(1));
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Moves on to the next leaf, which there is.
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

    /// Moves on to the next leaf if names of `hash` go on there.
    pub(super) fn advance(&mut self, hash: NameHash) -> Result<bool> {
        let goes_on = self.next_hash()? == Some(hash.0 | 1);
        if goes_on {
            self.step()?;
        }
        Ok(goes_on)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it does not begin with one unused entry")]
struct NotANode;

#[derive(Debug, thiserror::Error)]
#[error("it is given as a leaf")]
pub(super) struct NotALeaf;
