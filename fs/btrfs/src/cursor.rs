//! Positions in trees.

mod base;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::base::BaseCursor;
pub(crate) use self::base::BlockItem;
use crate::changes::TreeChanges;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::tree_blocks::TreeBlocks;
use crate::tree_root::TreeRoot;

/// A tree: its root, and the items that the replay of the log has changed.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) root: TreeRoot,
    pub(crate) changes: Option<Arc<TreeChanges>>,
}

/// An item: its key and its data.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) key: Key,
    data: ItemData,
}

#[derive(Debug, Clone)]
enum ItemData {
    InBlock(BlockItem),
    Changed(Arc<[u8]>),
}

impl Item {
    /// Returns the item's data.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            ItemData::InBlock(item) => item.bytes(),
            ItemData::Changed(bytes) => bytes,
        }
    }

    /// Returns the error for an item that contradicts its specification.
    pub(crate) fn invalid(&self, reason: &str) -> Error {
        let Key {
            object_id,
            item_type,
            offset,
        } = self.key;
        let reason = format!("invalid item of btrfs ({object_id} {item_type} {offset}): {reason}");
        let error = Error::new(ErrorKind::Corrupt, reason);
        match &self.data {
            ItemData::InBlock(item) => error.at(item.device_offset()),
            ItemData::Changed(_) => error,
        }
    }
}

/// A position in a tree: at an item, before the first, or after the last.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    base: BaseCursor<'a>,
    changes: Option<Arc<TreeChanges>>,
    current: Option<Item>,
    /// The key after which the next item comes.
    position: Key,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the last item with a key of at most `key`, or before the first.
    pub(crate) fn at_or_before(blocks: &'a TreeBlocks, tree: &Tree, key: Key) -> Result<Self> {
        let mut base = BaseCursor::at_or_before(blocks, &tree.root, key)?;
        let Some(changes) = &tree.changes else {
            let current = base.item().map(Item::from);
            return Ok(Self {
                base,
                changes: None,
                current,
                position: key,
            });
        };
        while base.key().is_some_and(|key| changes.overrides(key)) {
            base.back()?;
        }
        let stored = base.item().map(Item::from);
        let changed = changes.last_up_to(key).map(Item::from);
        Ok(Self {
            base,
            changes: Some(Arc::clone(changes)),
            current: greater(stored, changed),
            position: key,
        })
    }

    /// Returns a cursor at the first item with a key of at least `key`, or after the last.
    pub(crate) fn at_or_after(blocks: &'a TreeBlocks, tree: &Tree, key: Key) -> Result<Self> {
        let mut cursor = Self::at_or_before(blocks, tree, key)?;
        if cursor.item().is_none_or(|item| item.key != key) {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    /// Returns the item at the position.
    #[inline]
    pub(crate) fn item(&self) -> Option<&Item> {
        self.current.as_ref()
    }

    /// Moves to the next item.
    pub(crate) fn advance(&mut self) -> Result<()> {
        self.base.advance()?;
        let Some(changes) = &self.changes else {
            self.current = self.base.item().map(Item::from);
            return Ok(());
        };
        // The base is at the last unchanged item up to the position, so it moves only if the next
        // unchanged item comes before the next changed one.
        while self.base.key().is_some_and(|key| changes.overrides(key)) {
            self.base.advance()?;
        }
        let stored = self.base.item().map(Item::from);
        let changed = changes.first_after(self.position).map(Item::from);
        let is_changed_next = match (&stored, &changed) {
            (Some(stored), Some(changed)) => changed.key < stored.key,
            (stored, _) => stored.is_none(),
        };
        if is_changed_next {
            self.base.back()?;
            while self.base.key().is_some_and(|key| changes.overrides(key)) {
                self.base.back()?;
            }
            self.current = changed;
        } else {
            self.current = stored;
        }
        if let Some(item) = &self.current {
            self.position = item.key;
        }
        Ok(())
    }
}

/// Returns the item with the greater key.
fn greater(a: Option<Item>, b: Option<Item>) -> Option<Item> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.key > a.key { b } else { a }),
        (a, b) => a.or(b),
    }
}

impl From<(Key, BlockItem)> for Item {
    fn from((key, item): (Key, BlockItem)) -> Self {
        Self {
            key,
            data: ItemData::InBlock(item),
        }
    }
}

impl From<(Key, Arc<[u8]>)> for Item {
    fn from((key, bytes): (Key, Arc<[u8]>)) -> Self {
        Self {
            key,
            data: ItemData::Changed(bytes),
        }
    }
}

/// Returns the item with exactly this key.
pub(crate) fn find(blocks: &TreeBlocks, tree: &Tree, key: Key) -> Result<Option<Item>> {
    let cursor = Cursor::at_or_before(blocks, tree, key)?;
    Ok(cursor.current.filter(|item| item.key == key))
}
