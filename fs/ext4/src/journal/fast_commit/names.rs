//! The names of a directory that were added and removed since its blocks were written.

use std::collections::{BTreeMap, BTreeSet};

/// The edits of a directory's names; all other names are as in its blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameEdits {
    names: BTreeMap<Box<[u8]>, NameEdit>,
}

/// The edit of a name. The directory's blocks have priority: a name in them is kept unless it was
/// removed for the inode that they give it, and only then can it be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameEdit {
    added: Option<u32>,
    removed: BTreeSet<u32>,
}

impl NameEdit {
    /// Returns the inode that the name refers to, if the blocks give it `stored`.
    pub(crate) fn resolve(&self, stored: Option<u32>) -> Option<u32> {
        stored
            .filter(|inode| self.still_refers_to(*inode))
            .or(self.added)
    }

    /// Returns true if the name still refers to the inode that the blocks give it.
    pub(crate) fn still_refers_to(&self, stored: u32) -> bool {
        !self.removed.contains(&stored)
    }

    /// Returns the inode that the name was added for.
    pub(crate) const fn added(&self) -> Option<u32> {
        self.added
    }
}

impl NameEdits {
    /// Makes the name refer to the inode, unless it already refers to one.
    pub(super) fn link(&mut self, name: &[u8], inode: u32) {
        self.edit(name, |edit| {
            edit.added.get_or_insert(inode);
        });
    }

    /// Removes the name if it refers to this inode.
    pub(super) fn unlink(&mut self, name: &[u8], inode: u32) {
        self.edit(name, |edit| {
            edit.added.take_if(|added| *added == inode);
            edit.removed.insert(inode);
        });
    }

    fn edit(&mut self, name: &[u8], change: impl FnOnce(&mut NameEdit)) {
        if let Some(edit) = self.names.get_mut(name) {
            return change(edit);
        }
        let mut edit = NameEdit::default();
        change(&mut edit);
        self.names.insert(name.into(), edit);
    }

    /// Returns the edit of a name, or `None` if it is unchanged.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&NameEdit> {
        self.names.get(name)
    }

    /// Returns all edits, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &NameEdit)> {
        self.names.iter().map(|(name, edit)| (&**name, edit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(edits: &NameEdits, name: &[u8], stored: Option<u32>) -> Option<u32> {
        edits.get(name).map_or(stored, |edit| edit.resolve(stored))
    }

    #[test]
    fn replaced_by_another() {
        // rename(new, old): the blocks have old -> 5.
        let mut edits = NameEdits::default();
        edits.link(b"new", 6);
        edits.unlink(b"old", 5);
        edits.link(b"old", 6);
        edits.unlink(b"new", 6);
        assert_eq!(resolve(&edits, b"old", Some(5)), Some(6));
        assert_eq!(resolve(&edits, b"new", None), None);
        edits.unlink(b"old", 6);
        edits.link(b"old", 7);
        assert_eq!(resolve(&edits, b"old", Some(5)), Some(7));
        assert_eq!(resolve(&edits, b"other", Some(9)), Some(9));
    }

    #[test]
    fn only_what_stands_for_that_inode_is_removed() {
        let mut edits = NameEdits::default();
        edits.unlink(b"name", 5);
        assert_eq!(resolve(&edits, b"name", Some(5)), None);
        assert_eq!(resolve(&edits, b"name", Some(6)), Some(6));
        edits.link(b"name", 7);
        assert_eq!(resolve(&edits, b"name", Some(6)), Some(6));
        assert_eq!(resolve(&edits, b"name", Some(5)), Some(7));
    }
}
