//! The second pass: names of inodes that are not in the log.

use super::Replay;
use super::names::{DirName, RefName};
use crate::error::Result;
use crate::key::{Key, item};

impl Replay<'_> {
    /// Replays the entries of an item of a directory's index.
    pub(super) fn replay_entries(&mut self, key: Key, bytes: &[u8]) -> Result<()> {
        let entries = DirName::parse_all(bytes);
        for entry in entries.ok_or_else(|| self.log.invalid(key))? {
            let is_added = self.replay_entry(key, &entry)?;
            if is_added && entry.type_number != TYPE_DIRECTORY {
                self.fix_later(entry.location.object_id)?;
            }
        }
        Ok(())
    }

    /// Replays an entry; returns true if it was added.
    fn replay_entry(&mut self, key: Key, entry: &DirName) -> Result<bool> {
        let dir = key.object_id;
        self.subvolume.existing_inode(dir)?;
        let exists = self.target_exists(entry)?;
        let by_name = self.subvolume.entry(dir, &entry.name)?;
        let by_name = self.keep_or_remove(dir, by_name, entry, exists)?;
        let by_index = self.subvolume.entry_at(dir, key.offset, &entry.name)?;
        let by_index = self.keep_or_remove(dir, by_index, entry, exists)?;
        let inode = entry.location.object_id;
        let is_subvolume = entry.location.item_type != item::INODE_ITEM;
        // A name that the log refers to from its inode is added by the next pass.
        if (by_name && by_index) || is_subvolume || self.log.has_ref(inode, dir, &entry.name)? {
            return Ok(false);
        }
        if self.subvolume.inode(inode)?.is_none() {
            return Ok(false);
        }
        let place = RefName {
            dir,
            index: key.offset,
            name: entry.name.clone(),
        };
        if !self.subvolume.add_entry(dir, inode, &place)? {
            return Ok(false);
        }
        self.subvolume.add_ref(inode, place)?;
        Ok(true)
    }

    fn target_exists(&self, entry: &DirName) -> Result<bool> {
        let is_inode = entry.location.item_type == item::INODE_ITEM;
        Ok(is_inode && self.subvolume.inode(entry.location.object_id)?.is_some())
    }

    /// Removes an existing entry that leads elsewhere than the logged one, unless that would lead
    /// nowhere. Returns true if both are the same.
    fn keep_or_remove(
        &mut self,
        dir: u64,
        existing: Option<DirName>,
        logged: &DirName,
        exists: bool,
    ) -> Result<bool> {
        let Some(existing) = existing else {
            return Ok(false);
        };
        if existing.location == logged.location && existing.type_number == logged.type_number {
            return Ok(true);
        }
        if exists {
            self.remove_entry(dir, &existing)?;
        }
        Ok(false)
    }
}

/// The number of directories in entries (`BTRFS_FT_DIR`).
const TYPE_DIRECTORY: u8 = 2;
