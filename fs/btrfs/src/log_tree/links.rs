//! Adding and removing of names: of the entry in the directory, and of the inode's reference.

use super::inode::Inode;
use super::names::{DirName, RefName, dir_item_key, ref_keys};
use super::records::Records;
use crate::bytes::len_u64;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, item};

impl Records<'_> {
    /// Returns the entries of an item of a directory or of attributes.
    pub(super) fn dir_names(&self, key: Key) -> Result<Vec<DirName>> {
        let bytes = self.get(key)?.unwrap_or_default();
        DirName::parse_all(&bytes).ok_or_else(|| self.invalid(key))
    }

    /// Returns the references of an item of an inode.
    pub(super) fn ref_names(&self, key: Key) -> Result<Vec<RefName>> {
        let bytes = self.get(key)?.unwrap_or_default();
        RefName::parse_all(key, &bytes).ok_or_else(|| self.invalid(key))
    }

    /// Returns the entry of a directory with this name.
    pub(super) fn entry(&self, dir: u64, name: &[u8]) -> Result<Option<DirName>> {
        let entries = self.dir_names(dir_item_key(dir, name))?;
        Ok(entries.into_iter().find(|entry| entry.name == name))
    }

    /// Returns the entry of a directory at this index, if it has this name.
    pub(super) fn entry_at(&self, dir: u64, index: u64, name: &[u8]) -> Result<Option<DirName>> {
        let entries = self.dir_names(Key::new(dir, item::DIR_INDEX, index))?;
        Ok(entries.into_iter().find(|entry| entry.name == name))
    }

    /// Returns true if the inode has a reference to this name in `dir`, in an item of either kind.
    pub(super) fn has_ref(&self, inode: u64, dir: u64, name: &[u8]) -> Result<bool> {
        for key in ref_keys(inode, dir, name) {
            let names = self.ref_names(key)?;
            if names
                .iter()
                .any(|found| found.dir == dir && found.name == name)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds an entry for an inode to a directory, and not the inode's reference to it. Returns
    /// false if the directory has the name already, or another entry at the index.
    pub(super) fn add_entry(&mut self, dir: u64, inode: u64, place: &RefName) -> Result<bool> {
        let key = dir_item_key(dir, &place.name);
        let index_key = Key::new(dir, item::DIR_INDEX, place.index);
        let mut entries = self.dir_names(key)?;
        let exists = entries.iter().any(|entry| entry.name == place.name);
        if exists || self.get(index_key)?.is_some() {
            return Ok(false);
        }
        let entry = DirName {
            location: Key::new(inode, item::INODE_ITEM, 0),
            transid: 0,
            name: place.name.clone(),
            value: Vec::new(),
            type_number: self.existing_inode(inode)?.type_number(),
        };
        self.set(index_key, DirName::encode_all(std::slice::from_ref(&entry)))?;
        entries.push(entry);
        self.set(key, DirName::encode_all(&entries))?;
        self.change_dir(dir, |dir| dir.size().saturating_add(name_size(&place.name)))?;
        Ok(true)
    }

    /// Adds a reference to a name to an inode.
    pub(super) fn add_ref(&mut self, inode: u64, place: RefName) -> Result<()> {
        let [key, _] = ref_keys(inode, place.dir, &place.name);
        let mut names = self.ref_names(key)?;
        names.push(place);
        self.set(key, RefName::encode_all(key.item_type, &names))
    }

    /// Removes a name of an inode: the entry in the directory, and the inode's reference.
    pub(super) fn unlink(&mut self, dir: u64, inode: u64, name: &[u8]) -> Result<()> {
        let key = dir_item_key(dir, name);
        let mut entries = self.dir_names(key)?;
        let count = entries.len();
        entries.retain(|entry| entry.name != name);
        if entries.len() == count {
            return Err(missing("entry", dir, inode));
        }
        self.set_or_remove(key, DirName::encode_all(&entries))?;
        let index = self.remove_ref(dir, inode, name)?;
        self.remove(Key::new(dir, item::DIR_INDEX, index))?;
        self.change_dir(dir, |dir| dir.size().saturating_sub(name_size(name)))
    }

    /// Removes the inode's reference to a name, and returns the entry's index.
    fn remove_ref(&mut self, dir: u64, inode: u64, name: &[u8]) -> Result<u64> {
        for key in ref_keys(inode, dir, name) {
            let mut names = self.ref_names(key)?;
            let is_it = |found: &RefName| found.dir == dir && found.name == name;
            if let Some(at) = names.iter().position(is_it) {
                let removed = names.remove(at);
                self.set_or_remove(key, RefName::encode_all(key.item_type, &names))?;
                return Ok(removed.index);
            }
        }
        Err(missing("reference", dir, inode))
    }

    fn change_dir(&mut self, dir: u64, size: impl FnOnce(&Inode) -> u64) -> Result<()> {
        let mut inode = self.existing_inode(dir)?;
        inode.set_size(size(&inode));
        self.set_inode(dir, inode)
    }
}

/// Returns what a name adds to the size of its directory: its length for each of the two items.
fn name_size(name: &[u8]) -> u64 {
    len_u64(name.len()).saturating_mul(2)
}

fn missing(what: &str, dir: u64, inode: u64) -> Error {
    let reason = format!(
        "invalid directory of btrfs, met by the replay of the log: missing {what} of inode {inode} \
         in directory {dir}"
    );
    Error::new(ErrorKind::Corrupt, reason)
}
