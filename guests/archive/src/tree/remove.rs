//! Removal of files from the tree that is being planned.

use std::collections::BTreeMap;
use std::mem;

use diskfs_vfs::FileType;

use super::inode::{Body, Dentry, Id};
use super::plan::Plan;

impl Plan {
    /// Removes a name with everything below it, if it exists.
    pub(super) fn remove(&mut self, directory: Id, name: &[u8]) {
        let entries = self
            .directory_mut(directory)
            .map(|found| &mut found.entries);
        if let Some(dentry) = entries.and_then(|entries| entries.remove(name)) {
            self.last_directory = None;
            self.release(dentry.inode);
        }
    }

    /// Removes the names below `directory` that lower layers wrote. Directories that contain
    /// anything of this layer are kept.
    pub(super) fn remove_lower(&mut self, directory: Id) {
        self.last_directory = None;
        let layer = self.layer();
        let Some(found) = self.directory_mut(directory) else {
            return;
        };
        // A second whiteout in the same layer has nothing to remove.
        if found.opaque_in == Some(layer) {
            return;
        }
        found.opaque_in = Some(layer);
        let entries = mem::take(&mut found.entries);
        let mut kept = BTreeMap::new();
        for (name, mut dentry) in entries {
            if self.is_of_this_layer(&mut dentry) {
                kept.insert(name, dentry);
            } else {
                self.release(dentry.inode);
            }
        }
        if let Some(found) = self.directory_mut(directory) {
            found.entries = kept;
        }
    }

    /// Removes what lower layers wrote below a directory. Returns true if the entry is of this
    /// layer, or if something of this layer is below it. The attributes of a directory that only
    /// lower layers wrote are removed, too.
    pub(super) fn is_of_this_layer(&mut self, dentry: &mut Dentry) -> bool {
        self.remove_lower(dentry.inode);
        if dentry.layer == self.layer() {
            return true;
        }
        let entries = self.directory(dentry.inode).map(|found| &found.entries);
        if entries.is_none_or(BTreeMap::is_empty) {
            return false;
        }
        dentry.layer = self.layer();
        if let Some(inode) = self.inode_mut(dentry.inode) {
            inode.source = None;
            inode.xattrs = Box::default();
        }
        true
    }

    /// Removes a link of an inode. A directory is removed with everything below it.
    fn release(&mut self, inode: Id) {
        let mut open = vec![inode];
        while let Some(id) = open.pop() {
            let Some(inode) = self.inode_mut(id) else {
                continue;
            };
            inode.links = inode.links.saturating_sub(1);
            if inode.links > 0 {
                continue;
            }
            inode.xattrs = Box::default();
            let body = mem::replace(&mut inode.body, Body::Special(FileType::Fifo));
            if let Body::Directory(directory) = body {
                let entries = directory.entries.into_values();
                open.extend(entries.map(|dentry| dentry.inode));
            }
        }
    }
}
