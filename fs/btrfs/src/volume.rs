//! An open filesystem: its devices, chunks and trees.

mod open;

pub(crate) use open::listed_devices;

use crate::changes::Changes;
use crate::cursor::{self, Cursor, Item, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, item};
use crate::root_item::RootItem;
use crate::superblock::Superblock;
use crate::tree_blocks::TreeBlocks;
use crate::tree_root::TreeRoot;

/// An open filesystem.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) blocks: TreeBlocks,
    pub(crate) root_tree: Tree,
    /// The tree of checksums of data, if the filesystem has one.
    pub(crate) checksums: Option<Tree>,
    /// The items that the replay of the log changed.
    changes: Changes,
    /// Notes for the filesystem's identity.
    pub(crate) notes: Vec<String>,
}

impl Volume {
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.blocks.storage.devices.superblock
    }

    pub(crate) fn sector_bytes(&self) -> u64 {
        u64::from(self.superblock().sector_bytes)
    }

    /// Returns the tree with this root, with the changes of the log.
    pub(crate) fn tree(&self, root: TreeRoot) -> Tree {
        Tree {
            changes: self.changes.of_tree(root.owner),
            root,
        }
    }

    /// Returns the newest root of a tree; `None` if there is no such tree.
    pub(crate) fn root_item(&self, id: u64) -> Result<Option<RootItem>> {
        let key = Key::new(id, item::ROOT_ITEM, u64::MAX);
        let cursor = self.at_or_before(&self.root_tree, key)?;
        let found = cursor.item().filter(|found| found.key.is_beside(key));
        let sector_bytes = self.superblock().sector_bytes;
        found
            .map(|found| RootItem::parse(found, sector_bytes))
            .transpose()
    }

    /// Returns a tree that must exist.
    pub(crate) fn existing_tree(&self, id: u64, name: &str) -> Result<Tree> {
        let missing = || Error::new(ErrorKind::Corrupt, format!("missing {name} tree of btrfs"));
        Ok(self.tree(self.root_item(id)?.ok_or_else(missing)?.root))
    }

    /// Returns the item with exactly this key.
    pub(crate) fn find(&self, tree: &Tree, key: Key) -> Result<Option<Item>> {
        cursor::find(&self.blocks, tree, key)
    }

    /// Returns a cursor at the last item with a key of at most `key`, or before the first.
    pub(crate) fn at_or_before(&self, tree: &Tree, key: Key) -> Result<Cursor<'_>> {
        Cursor::at_or_before(&self.blocks, tree, key)
    }

    /// Returns a cursor at the first item with a key of at least `key`, or after the last.
    pub(crate) fn at_or_after(&self, tree: &Tree, key: Key) -> Result<Cursor<'_>> {
        Cursor::at_or_after(&self.blocks, tree, key)
    }

    /// Calls `visit` for each item with the object ID and type of `first`, from that key on.
    pub(crate) fn each(
        &self,
        tree: &Tree,
        first: Key,
        mut visit: impl FnMut(&Item) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = self.at_or_after(tree, first)?;
        while let Some(found) = cursor.item().filter(|found| found.key.is_beside(first)) {
            visit(found)?;
            cursor.advance()?;
        }
        Ok(())
    }
}
