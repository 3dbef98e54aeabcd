//! Growth of an index: the path to a leaf, with the free room in its index blocks, and changes of
//! index blocks, one block at a time. Every changed block gets its new checksum.

use crate::block::FileBlock;
use crate::error::Result;

use super::dx_entry::{BLOCK_MAX, DxEntry, DxTable, DxTableMut};
use super::hash::{Algorithm, Hasher, NameHash};
use super::lookup::{Blocks, Directory, Start};
use super::path::{NotALeaf, Path};
use super::{dx_node, dx_root, dx_tail};

/// An index block on the path to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexStep {
    pub(crate) block: FileBlock,
    /// The position of the entry through which the path continues.
    pub(crate) position: usize,
    count: usize,
    limit: usize,
}

impl IndexStep {
    const fn has_room(&self) -> bool {
        self.count < self.limit
    }
}

/// The path to the first leaf with the names of one hash.
#[derive(Debug)]
pub(crate) struct IndexPath {
    pub(crate) hasher: Hasher,
    pub(crate) hash: NameHash,
    pub(crate) leaf: FileBlock,
    /// The index blocks from the root down; never empty.
    steps: Vec<IndexStep>,
    levels_max: u8,
}

/// The next step before an entry can be added to the last index block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InsertStep {
    /// The entry can be added after that of this step.
    Add(IndexStep),
    /// The block `full` must be split; the entry of its other half goes to `parent`, which has
    /// room.
    Split { parent: IndexStep, full: IndexStep },
    /// All index blocks of the path are full: the root's entries must move to a new block below it.
    /// Then there are this many levels of index blocks below the root.
    Deepen { levels: u8 },
    /// All index blocks of the path are full, and the index has its maximum depth.
    Full,
}

impl IndexPath {
    /// Finds the path to the names whose hash is that of `hashed`. Returns `None` if hashes cannot
    /// be computed without a key.
    ///
    /// # Errors
    /// `Corrupt` if the index is invalid; the errors of `blocks`.
    pub(crate) fn find<B: Blocks>(
        directory: &Directory,
        blocks: &B,
        hashed: &[u8],
    ) -> Result<Option<Self>> {
        let Some(Start {
            root,
            hasher,
            levels,
        }) = directory.start(blocks)?
        else {
            return Ok(None);
        };
        let hash = hasher.hash(hashed);
        let path = Path::to_hash(directory, blocks, root, levels, hash)?;
        let leaf = path.leaf()?;
        if leaf == FileBlock(0) {
            return Err(directory.malformed(leaf, &NotALeaf));
        }
        let steps = path.frames.iter().map(|frame| {
            let table = path.table(frame)?;
            Ok(IndexStep {
                block: frame.number,
                position: frame.position,
                count: table.count(),
                limit: table.limit(),
            })
        });
        Ok(Some(Self {
            hasher,
            hash,
            leaf,
            steps: steps.collect::<Result<_>>()?,
            levels_max: directory.levels_max,
        }))
    }

    /// Returns what must be done before an entry can be added.
    pub(crate) fn next(&self) -> InsertStep {
        let mut full = None;
        for step in self.steps.iter().rev() {
            if step.has_room() {
                return match full {
                    None => InsertStep::Add(*step),
                    Some(full) => InsertStep::Split {
                        parent: *step,
                        full,
                    },
                };
            }
            full = Some(*step);
        }
        // The root is a step, too, so the number of levels increases to the number of steps.
        match u8::try_from(self.steps.len()) {
            Ok(levels) if levels <= self.levels_max => InsertStep::Deepen { levels },
            _ => InsertStep::Full,
        }
    }
}

/// Returns true if an index entry can refer to the block.
pub(crate) fn reaches(block: FileBlock) -> bool {
    block <= BLOCK_MAX
}

impl Directory {
    const fn offset_in(block: FileBlock) -> usize {
        if block.0 == 0 {
            dx_root::TABLE_OFFSET
        } else {
            dx_node::TABLE_OFFSET
        }
    }

    /// Changes the table of an index block.
    fn change_table(
        &self,
        block: FileBlock,
        bytes: &mut [u8],
        count: usize,
        change: impl FnOnce(&mut DxTableMut<'_>),
    ) {
        let offset = Self::offset_in(block);
        let limit = self.limit(offset);
        if let Some(mut table) = DxTableMut::new(bytes, offset, limit, count) {
            change(&mut table);
        }
        if let Some(seed) = self.checksum {
            dx_tail::seal(bytes, offset, limit, seed);
        }
    }

    /// Adds an entry after the one of `step`: names from `hash` on are below `below`.
    pub(crate) fn add_entry(&self, step: IndexStep, bytes: &mut [u8], hash: u32, below: FileBlock) {
        self.change_table(step.block, bytes, step.count, |table| {
            let behind = step.position.saturating_add(1);
            table.insert(behind, DxEntry::new(hash, below));
        });
    }

    /// Returns the upper half of a full index block: the hash that it begins with, and an index
    /// block with its entries.
    ///
    /// # Errors
    /// `Corrupt` if the block is invalid.
    pub(crate) fn upper_half(&self, step: IndexStep, bytes: &[u8]) -> Result<(u32, Vec<u8>)> {
        let table = self.table(step.block, bytes, Self::offset_in(step.block))?;
        let middle = Self::middle(step);
        let hash = table.hash(middle).unwrap_or(0);
        Ok((hash, self.node(&table, middle)))
    }

    /// Removes the upper half of an index block.
    pub(crate) fn cut_upper_half(&self, step: IndexStep, bytes: &mut [u8]) {
        self.change_table(step.block, bytes, step.count, |table| {
            table.truncate(Self::middle(step));
        });
    }

    const fn middle(step: IndexStep) -> usize {
        step.count.wrapping_div(2)
    }

    /// Returns an index block with all of the root's entries.
    ///
    /// # Errors
    /// `Corrupt` if the root is invalid.
    pub(crate) fn below_root(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let table = self.table(FileBlock(0), bytes, dx_root::TABLE_OFFSET)?;
        Ok(self.node(&table, 0))
    }

    /// Makes `below`, which has the root's former entries, the only child of the root.
    pub(crate) fn deepen(&self, levels: u8, bytes: &mut [u8], below: FileBlock) {
        dx_root::set_levels(bytes, levels);
        self.change_table(FileBlock(0), bytes, 0, |table| {
            table.fill(&[DxEntry::new(0, below)]);
        });
    }

    /// Updates the checksum of an index block.
    pub(crate) fn seal(&self, block: FileBlock, bytes: &mut [u8]) {
        if let Some(seed) = self.checksum {
            let offset = Self::offset_in(block);
            dx_tail::seal(bytes, offset, self.limit(offset), seed);
        }
    }

    /// Updates the root's checksum after a change before its table.
    pub(crate) fn seal_root(&self, bytes: &mut [u8]) {
        self.seal(FileBlock(0), bytes);
    }

    /// Makes block 0 of a directory the root of an index with one leaf.
    pub(crate) fn put_root(&self, bytes: &mut [u8], algorithm: Algorithm, leaf: FileBlock) {
        dx_root::put_start(bytes, self.block_size, algorithm);
        self.deepen(0, bytes, leaf);
    }

    /// Returns an index block with the entries of `table` from `position` on.
    fn node(&self, table: &DxTable<'_>, position: usize) -> Vec<u8> {
        /// The number of any block but the root.
        const BLOCK: FileBlock = FileBlock(1);
        let mut bytes = vec![0; self.block_size.len()];
        dx_node::put_start(&mut bytes, self.block_size);
        self.change_table(BLOCK, &mut bytes, 0, |new| new.fill(&table.from(position)));
        bytes
    }
}
