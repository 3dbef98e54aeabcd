//! How an index grows: the way to a leaf, with what room its index blocks have, and the changes of
//! index blocks, one block at a time. Blocks that were changed have the right checksum.

use crate::block::FileBlock;
use crate::error::Result;

use super::dx_entry::{BLOCK_MAX, DxEntry, DxTable, DxTableMut};
use super::hash::{Algorithm, Hasher, NameHash};
use super::lookup::{Blocks, Directory, Start};
use super::path::{NotALeaf, Path};
use super::{dx_node, dx_root, dx_tail};

/// An index block on the way to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) block: FileBlock,
    /// The entry that was taken.
    pub(crate) position: usize,
    count: usize,
    limit: usize,
}

impl Step {
    const fn has_room(&self) -> bool {
        self.count < self.limit
    }
}

/// The way to where the names of one hash begin.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) hasher: Hasher,
    pub(crate) hash: NameHash,
    pub(crate) leaf: FileBlock,
    /// From the root down; at least that.
    steps: Vec<Step>,
    levels_max: u8,
}

/// What must be done before an entry can be added to the last index block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it goes behind this step's.
    Add(Step),
    /// `full` is to be cut in two; the other half's entry goes to `parent`, which has room for it.
    Split { parent: Step, full: Step },
    /// All the way is full: the root's entries go to a block below it, so that there are so many
    /// levels of index blocks below the root.
    Deepen { levels: u8 },
    /// All the way is full, and can't be longer.
    Full,
}

impl Way {
    /// The way to the names whose hash is that of `hashed`. `None` when only a key's owner can
    /// compute hashes.
    ///
    /// # Errors
    /// `Corrupt` when the index makes no sense; what `blocks` answers.
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
            Ok(Step {
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

    /// What must be done before an entry can be added.
    pub(crate) fn next(&self) -> Next {
        let mut full = None;
        for step in self.steps.iter().rev() {
            if step.has_room() {
                return match full {
                    None => Next::Add(*step),
                    Some(full) => Next::Split {
                        parent: *step,
                        full,
                    },
                };
            }
            full = Some(*step);
        }
        // The root is a step, too: there is one level less now.
        match u8::try_from(self.steps.len()) {
            Ok(levels) if levels <= self.levels_max => Next::Deepen { levels },
            _ => Next::Full,
        }
    }
}

/// Whether an index can lead to the block.
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

    /// Adds an entry behind the one of `step`: names from `hash` on are below `below`.
    pub(crate) fn add_entry(&self, step: Step, bytes: &mut [u8], hash: u32, below: FileBlock) {
        self.change_table(step.block, bytes, step.count, |table| {
            let behind = step.position.saturating_add(1);
            table.insert(behind, DxEntry::new(hash, below));
        });
    }

    /// The upper half of a full index block: the hash it begins with, and an index block that has it.
    ///
    /// # Errors
    /// `Corrupt` when the block makes no sense.
    pub(crate) fn upper_half(&self, step: Step, bytes: &[u8]) -> Result<(u32, Vec<u8>)> {
        let table = self.table(step.block, bytes, Self::offset_in(step.block))?;
        let middle = Self::middle(step);
        let hash = table.hash(middle).unwrap_or(0);
        Ok((hash, self.node(&table, middle)))
    }

    /// Takes the upper half away.
    pub(crate) fn cut_upper_half(&self, step: Step, bytes: &mut [u8]) {
        self.change_table(step.block, bytes, step.count, |table| {
            table.truncate(Self::middle(step));
        });
    }

    const fn middle(step: Step) -> usize {
        step.count.wrapping_div(2)
    }

    /// An index block that has all of the root's entries.
    ///
    /// # Errors
    /// `Corrupt` when the root makes no sense.
    pub(crate) fn below_root(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let table = self.table(FileBlock(0), bytes, dx_root::TABLE_OFFSET)?;
        Ok(self.node(&table, 0))
    }

    /// Has the root lead to `below` only, which has its entries.
    pub(crate) fn deepen(&self, levels: u8, bytes: &mut [u8], below: FileBlock) {
        dx_root::set_levels(bytes, levels);
        self.change_table(FileBlock(0), bytes, 0, |table| {
            table.fill(&[DxEntry::new(0, below)]);
        });
    }

    /// Gives the root the right checksum, after a change before its table.
    pub(crate) fn seal_root(&self, bytes: &mut [u8]) {
        if let Some(seed) = self.checksum {
            let offset = dx_root::TABLE_OFFSET;
            dx_tail::seal(bytes, offset, self.limit(offset), seed);
        }
    }

    /// Makes block 0 of a directory the root of an index, with one leaf.
    pub(crate) fn put_root(&self, bytes: &mut [u8], algorithm: Algorithm, leaf: FileBlock) {
        dx_root::put_start(bytes, self.block_size, algorithm);
        self.deepen(0, bytes, leaf);
    }

    /// An index block with the entries of `table` from `position` on.
    fn node(&self, table: &DxTable<'_>, position: usize) -> Vec<u8> {
        /// Any block but the root.
        const BLOCK: FileBlock = FileBlock(1);
        let mut bytes = vec![0; self.block_size.len()];
        dx_node::put_start(&mut bytes, self.block_size);
        self.change_table(BLOCK, &mut bytes, 0, |new| new.fill(&table.from(position)));
        bytes
    }
}
