//! Names of a directory that came and went since its blocks were written.

use std::collections::{BTreeMap, BTreeSet};

/// The names that a directory's blocks are no longer right about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameEdits {
    names: BTreeMap<Box<[u8]>, NameEdit>,
}

/// What became of a name. The blocks have the first word: a name that is in them stays unless it
/// was removed for the inode that they give it, and only then can it be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameEdit {
    added: Option<u32>,
    removed: BTreeSet<u32>,
}

impl NameEdit {
    /// The inode that the name stands for, if the blocks give it `stored`.
    pub(crate) fn resolve(&self, stored: Option<u32>) -> Option<u32> {
        stored.filter(|inode| self.keeps(*inode)).or(self.added)
    }

    /// Whether it still stands for the inode that the blocks give it.
    pub(crate) fn keeps(&self, stored: u32) -> bool {
        !self.removed.contains(&stored)
    }

    /// The inode that it was added for.
    pub(crate) const fn added(&self) -> Option<u32> {
        self.added
    }
}

impl NameEdits {
    /// The name stands for the inode now, unless it stands for one already.
    pub(super) fn link(&mut self, name: &[u8], inode: u32) {
        self.edit(name, |edit| {
            edit.added.get_or_insert(inode);
        });
    }

    /// The name is gone, if it stood for this inode.
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

    /// What became of a name; `None` for nothing.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&NameEdit> {
        self.names.get(name)
    }

    /// All of them, sorted by name.
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
        // rename(new, old): the blocks say old -> 5.
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
