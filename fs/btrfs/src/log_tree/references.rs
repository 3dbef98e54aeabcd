//! The third pass: names of logged inodes.

use super::Replay;
use super::names::{RefName, ref_keys};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, item};

impl Replay<'_> {
    /// Replays an item with references of an inode: its names in a directory become those of the
    /// log.
    pub(super) fn replay_refs(&mut self, key: Key, bytes: &[u8]) -> Result<()> {
        let logged = RefName::parse_all(key, bytes).ok_or_else(|| self.log.invalid(key))?;
        let inode = key.object_id;
        // A directory that was not logged, and that doesn't exist: the name is lost with it.
        let is_lost = |replay: &Self, dir| Ok::<_, Error>(replay.subvolume.inode(dir)?.is_none());
        if let Some(first) = logged.first()
            && is_lost(self, first.dir)?
        {
            return Ok(());
        }
        self.subvolume.existing_inode(inode)?;
        for place in &logged {
            if is_lost(self, place.dir)? || self.is_in_dir(inode, place)? {
                continue;
            }
            if self.is_root(inode, place.dir)? {
                return Ok(());
            }
            self.remove_conflicts(inode, place)?;
            if !self.subvolume.add_entry(place.dir, inode, place)? {
                return Err(taken(inode, place));
            }
        }
        self.remove_old_refs(key, &logged)?;
        self.subvolume
            .set(key, RefName::encode_all(key.item_type, &logged))
    }

    /// Returns true if the directory has the entry already.
    fn is_in_dir(&self, inode: u64, place: &RefName) -> Result<bool> {
        let leads_there = |entry: Option<super::names::DirName>| {
            entry.is_some_and(|entry| entry.location.object_id == inode)
        };
        let by_index = self
            .subvolume
            .entry_at(place.dir, place.index, &place.name)?;
        Ok(leads_there(by_index) && leads_there(self.subvolume.entry(place.dir, &place.name)?))
    }

    /// Returns true for the reference of the subvolume's root to itself.
    fn is_root(&self, inode: u64, dir: u64) -> Result<bool> {
        let key = Key::new(inode, item::INODE_REF, dir);
        Ok(inode == dir && self.subvolume.get(key)?.is_some())
    }

    /// Removes the names that are in the way of a logged one: names of the inode in the directory
    /// that are not in the log, and other files with the name or at the index.
    fn remove_conflicts(&mut self, inode: u64, place: &RefName) -> Result<()> {
        for key in ref_keys(inode, place.dir, &place.name) {
            for victim in self.subvolume.ref_names(key)? {
                if victim.dir == place.dir && !self.log_has(key, &victim)? {
                    self.subvolume.unlink(victim.dir, inode, &victim.name)?;
                }
            }
        }
        let by_index = self
            .subvolume
            .entry_at(place.dir, place.index, &place.name)?;
        if let Some(entry) = by_index {
            self.remove_entry(place.dir, &entry)?;
        }
        if let Some(entry) = self.subvolume.entry(place.dir, &place.name)? {
            self.remove_entry(place.dir, &entry)?;
        }
        Ok(())
    }

    /// Returns true if the log has the same reference in an item of the same kind as `key`.
    fn log_has(&self, key: Key, name: &RefName) -> Result<bool> {
        let keys = ref_keys(key.object_id, name.dir, &name.name);
        let same_kind = keys
            .into_iter()
            .find(|other| other.item_type == key.item_type);
        let names = self.log.ref_names(same_kind.unwrap_or(key))?;
        Ok(names
            .iter()
            .any(|found| found.dir == name.dir && found.name == name.name))
    }

    /// Removes the names of the subvolume's item with this key that the log's item lacks.
    fn remove_old_refs(&mut self, key: Key, logged: &[RefName]) -> Result<()> {
        for old in self.subvolume.ref_names(key)? {
            let is_logged = |new: &RefName| new.dir == old.dir && new.name == old.name;
            if !logged.iter().any(is_logged) {
                self.subvolume.unlink(old.dir, key.object_id, &old.name)?;
            }
        }
        Ok(())
    }
}

fn taken(inode: u64, place: &RefName) -> Error {
    let reason = format!(
        "invalid log tree of btrfs: the entry {} of directory {} for inode {inode} is taken",
        place.index, place.dir
    );
    Error::new(ErrorKind::Corrupt, reason)
}
