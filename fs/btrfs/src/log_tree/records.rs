//! The items of a tree that a replay reads and changes.

use std::sync::Arc;

use super::budget::Budget;
use super::inode::Inode;
use crate::bytes::len_u64;
use crate::changes::TreeChanges;
use crate::cursor::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, item};
use crate::volume::Volume;

/// The items of a tree with the changes so far.
#[derive(Debug)]
pub(super) struct Records<'a> {
    volume: &'a Volume,
    tree: Tree,
    budget: &'a Budget,
}

impl<'a> Records<'a> {
    pub(super) fn new(volume: &'a Volume, tree: Tree, budget: &'a Budget) -> Self {
        Self {
            volume,
            tree,
            budget,
        }
    }

    pub(super) fn sector_bytes(&self) -> u64 {
        self.volume.sector_bytes()
    }

    /// Returns the length of a checksum.
    pub(super) fn checksum_bytes(&self) -> u64 {
        len_u64(self.volume.superblock().checksum.len_bytes())
    }

    /// Returns the data of the item with this key.
    pub(super) fn get(&self, key: Key) -> Result<Option<Vec<u8>>> {
        let found = self.volume.find(&self.tree, key)?;
        let bytes = found.as_ref().map(|found| found.bytes().to_vec());
        self.budget.spend_step(bytes.as_ref().map_or(0, Vec::len))?;
        Ok(bytes)
    }

    /// Returns the first item from `first` on with its object ID and type.
    pub(super) fn next(&self, first: Key) -> Result<Option<(Key, Vec<u8>)>> {
        let found = self.next_of_any(first)?;
        Ok(found.filter(|(key, _)| key.is_beside(first)))
    }

    /// Returns the first item from `first` on.
    pub(super) fn next_of_any(&self, first: Key) -> Result<Option<(Key, Vec<u8>)>> {
        let cursor = self.volume.at_or_after(&self.tree, first)?;
        let found = cursor
            .item()
            .map(|found| (found.key, found.bytes().to_vec()));
        let len = found.as_ref().map_or(0, |(_, bytes)| bytes.len());
        self.budget.spend_step(len)?;
        Ok(found)
    }

    /// Returns the last item up to `last` with its object ID and type.
    pub(super) fn last_up_to(&self, last: Key) -> Result<Option<(Key, Vec<u8>)>> {
        let cursor = self.volume.at_or_before(&self.tree, last)?;
        let found = cursor.item().filter(|found| found.key.is_beside(last));
        let found = found.map(|found| (found.key, found.bytes().to_vec()));
        let len = found.as_ref().map_or(0, |(_, bytes)| bytes.len());
        self.budget.spend_step(len)?;
        Ok(found)
    }

    /// Inserts an item, or replaces its data.
    pub(super) fn set(&mut self, key: Key, bytes: Vec<u8>) -> Result<()> {
        self.budget.spend_step(bytes.len())?;
        self.budget.spend_memory(bytes.len())?;
        let replaced = self.changes().set(key, bytes);
        self.budget.release_memory(replaced);
        Ok(())
    }

    /// Sets an item, or removes it if there is no data.
    pub(super) fn set_or_remove(&mut self, key: Key, bytes: Vec<u8>) -> Result<()> {
        if bytes.is_empty() {
            return self.remove(key);
        }
        self.set(key, bytes)
    }

    pub(super) fn remove(&mut self, key: Key) -> Result<()> {
        self.budget.spend_step(0)?;
        self.budget.spend_memory(0)?;
        let replaced = self.changes().remove(key);
        self.budget.release_memory(replaced);
        Ok(())
    }

    fn changes(&mut self) -> &mut TreeChanges {
        Arc::make_mut(self.tree.changes.get_or_insert_default())
    }

    /// Returns all changes.
    pub(super) fn into_changes(self) -> Option<Arc<TreeChanges>> {
        self.tree.changes
    }

    /// Returns the inode with this number.
    pub(super) fn inode(&self, number: u64) -> Result<Option<Inode>> {
        let key = Key::new(number, item::INODE_ITEM, 0);
        let bytes = self.get(key)?;
        bytes
            .map(|bytes| Inode::parse(&bytes).ok_or_else(|| self.invalid(key)))
            .transpose()
    }

    /// Returns the inode with this number, which must exist.
    pub(super) fn existing_inode(&self, number: u64) -> Result<Inode> {
        let missing = || {
            let reason = format!("invalid log tree of btrfs: missing inode {number}");
            Error::new(ErrorKind::Corrupt, reason)
        };
        self.inode(number)?.ok_or_else(missing)
    }

    pub(super) fn set_inode(&mut self, number: u64, inode: Inode) -> Result<()> {
        self.set(Key::new(number, item::INODE_ITEM, 0), inode.into_bytes())
    }

    /// Returns the error for an item that contradicts its specification.
    pub(super) fn invalid(&self, key: Key) -> Error {
        let Key {
            object_id,
            item_type,
            offset,
        } = key;
        let tree = self.tree.root.owner.cast_signed();
        let reason = format!(
            "invalid item of btrfs ({object_id} {item_type} {offset}) in tree {tree}, \
             met by the replay of the log"
        );
        Error::new(ErrorKind::Corrupt, reason)
    }
}
