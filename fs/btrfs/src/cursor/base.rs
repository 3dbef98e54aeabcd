//! Positions in trees as they are on the device.

use std::ops::Range;
use std::sync::Arc;

use crate::bytes::len_u64;
use crate::error::Result;
use crate::key::Key;
use crate::tree_block::TreeBlock;
use crate::tree_blocks::TreeBlocks;
use crate::tree_root::TreeRoot;

/// An item's data within its block.
#[derive(Debug, Clone)]
pub(crate) struct BlockItem {
    block: Arc<TreeBlock>,
    place: Range<usize>,
}

impl BlockItem {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.block.bytes(self.place.clone())
    }

    /// Returns the byte of the device where the data begins.
    pub(super) fn device_offset(&self) -> u64 {
        self.block.place.saturating_add(len_u64(self.place.start))
    }
}

/// A position in a tree as it is on the device.
#[derive(Debug)]
pub(super) struct BaseCursor<'a> {
    blocks: &'a TreeBlocks,
    owner: u64,
    /// The blocks from the root to the leaf, each with the index of a pointer or an item.
    path: Vec<(Arc<TreeBlock>, usize)>,
    place: Position,
}

/// The place of a cursor among the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    BeforeFirst,
    AtItem,
    AfterLast,
}

/// The direction of a step.
#[derive(Debug, Clone, Copy)]
enum Direction {
    Forward,
    Back,
}

impl<'a> BaseCursor<'a> {
    /// Returns a cursor at the last item with a key of at most `key`, or before the first.
    pub(super) fn at_or_before(blocks: &'a TreeBlocks, root: &TreeRoot, key: Key) -> Result<Self> {
        let mut block = blocks.root(root)?;
        let mut path = Vec::with_capacity(usize::from(root.level).saturating_add(1));
        loop {
            let count = block.count_up_to(key);
            let nth = count.saturating_sub(1);
            let next = (!block.is_leaf()).then(|| block.expected(nth, root.owner));
            path.push((block, nth));
            if let Some(expected) = next.transpose()? {
                block = blocks.get(&expected)?;
                continue;
            }
            let place = if count == 0 {
                Position::BeforeFirst
            } else {
                Position::AtItem
            };
            return Ok(Self {
                blocks,
                owner: root.owner,
                path,
                place,
            });
        }
    }

    /// Returns the item at the position.
    pub(super) fn item(&self) -> Option<(Key, BlockItem)> {
        let (leaf, nth) = self.leaf()?;
        let item = BlockItem {
            place: leaf.item_place(nth)?,
            block: Arc::clone(leaf),
        };
        Some((leaf.key(nth)?, item))
    }

    /// Returns the key of the item at the position.
    pub(super) fn key(&self) -> Option<Key> {
        let (leaf, nth) = self.leaf()?;
        leaf.key(nth)
    }

    fn leaf(&self) -> Option<(&Arc<TreeBlock>, usize)> {
        if self.place != Position::AtItem {
            return None;
        }
        self.path.last().map(|(leaf, nth)| (leaf, *nth))
    }

    /// Moves to the next item.
    pub(super) fn advance(&mut self) -> Result<()> {
        match self.place {
            // Before the first item, the path leads to it.
            Position::BeforeFirst if self.has_items() => self.place = Position::AtItem,
            Position::BeforeFirst => self.place = Position::AfterLast,
            Position::AtItem => {
                if !self.step(Direction::Forward)? {
                    self.place = Position::AfterLast;
                }
            }
            Position::AfterLast => {}
        }
        Ok(())
    }

    /// Moves to the previous item.
    pub(super) fn back(&mut self) -> Result<()> {
        match self.place {
            // After the last item, the path still leads to it.
            Position::AfterLast if self.has_items() => self.place = Position::AtItem,
            Position::AfterLast => self.place = Position::BeforeFirst,
            Position::AtItem => {
                if !self.step(Direction::Back)? {
                    self.place = Position::BeforeFirst;
                }
            }
            Position::BeforeFirst => {}
        }
        Ok(())
    }

    /// Returns true unless the tree is an empty leaf.
    fn has_items(&self) -> bool {
        self.path.last().is_some_and(|(leaf, _)| leaf.len() > 0)
    }

    /// Moves the path by one item; returns false, and leaves it, if there is none.
    fn step(&mut self, direction: Direction) -> Result<bool> {
        let neighbour = |nth: usize, len: usize| match direction {
            Direction::Forward => nth.checked_add(1).filter(|nth| *nth < len),
            Direction::Back => nth.checked_sub(1),
        };
        let before = self.key();
        let mut nth_from_leaf = self.path.len();
        while let Some(above) = nth_from_leaf.checked_sub(1) {
            let Some((block, nth)) = self.path.get_mut(above) else {
                return Ok(false);
            };
            if let Some(next) = neighbour(*nth, block.len()) {
                *nth = next;
                self.path.truncate(nth_from_leaf);
                self.descend(direction)?;
                self.check_order(before, direction)?;
                return Ok(true);
            }
            nth_from_leaf = above;
        }
        Ok(false)
    }

    /// Fails if a step led to a key on the wrong side of the one before. Nodes of a hostile image
    /// may share children; without this check, the number of steps could grow exponentially.
    fn check_order(&self, before: Option<Key>, direction: Direction) -> Result<()> {
        let (Some(before), Some(key)) = (before, self.key()) else {
            return Ok(());
        };
        let is_ordered = match direction {
            Direction::Forward => key > before,
            Direction::Back => key < before,
        };
        match self.leaf() {
            Some((leaf, _)) if !is_ordered => {
                Err(leaf.invalid("its keys are not in the order of its tree"))
            }
            _ => Ok(()),
        }
    }

    /// Extends the path down to a leaf: to its first item, or to its last.
    fn descend(&mut self, direction: Direction) -> Result<()> {
        while let Some((block, nth)) = self.path.last() {
            if block.is_leaf() {
                break;
            }
            let next = self.blocks.get(&block.expected(*nth, self.owner)?)?;
            let nth = match direction {
                Direction::Forward => 0,
                Direction::Back => next.len().saturating_sub(1),
            };
            self.path.push((next, nth));
        }
        Ok(())
    }
}
