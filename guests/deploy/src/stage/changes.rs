//! The changes of a stage to its guest.

use super::{Contents, Entry, EntryKind, Stage, root_or};
use diskfs_disk::Result;

/// The change of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path, without symlinks.
    pub path: String,
    /// The entry before the change.
    pub before: Option<Entry>,
    /// The entry after the change.
    pub after: Option<Entry>,
    /// The aspects that change; empty for a path that is created or removed.
    pub aspects: Vec<Aspect>,
}

/// An aspect of a file that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// The contents of a file.
    Contents,
    /// The low 12 bits of the mode.
    Mode,
    /// The owner or the group.
    Owner,
    /// The extended attributes.
    Xattrs,
}

impl Stage {
    /// Returns all changes, sorted by path. A path that was changed and changed back is not
    /// included.
    ///
    /// # Errors
    /// The errors of reading the guest.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (path, after) in &self.nodes {
            let before = self.before(path)?;
            changes.extend(self.change_of(path, before, after.clone())?);
        }
        Ok(changes)
    }

    /// Returns true if a changed path may differ from the guest. Large contents are not compared
    /// here.
    pub(in super::super) fn may_change(&self, path: &str) -> Result<bool> {
        let Some(after) = self.nodes.get(path) else {
            return Ok(false);
        };
        let is_small = match after.as_ref().map(|entry| &entry.kind) {
            Some(EntryKind::File(contents)) => {
                matches!(contents, Contents::AsBefore | Contents::Bytes(_))
            }
            _ => true,
        };
        if !is_small {
            return Ok(true);
        }
        let change = self.change_of(path, self.before(path)?, after.clone())?;
        Ok(change.is_some())
    }

    fn change_of(
        &self,
        path: &str,
        before: Option<Entry>,
        after: Option<Entry>,
    ) -> Result<Option<Change>> {
        let aspects = match (&before, &after) {
            (None, None) => return Ok(None),
            (Some(before), Some(after)) => {
                let aspects = self.aspects(path, before, after)?;
                if aspects.is_empty() && is_same_kind(before, after) {
                    return Ok(None);
                }
                aspects
            }
            _ => Vec::new(),
        };
        Ok(Some(Change {
            path: root_or(path).to_owned(),
            before,
            after,
            aspects,
        }))
    }

    fn aspects(&self, path: &str, before: &Entry, after: &Entry) -> Result<Vec<Aspect>> {
        if let EntryKind::File(contents @ Contents::HardLinkTo(_)) = &after.kind {
            // The mode, owner and attributes are those of the file that the hard link refers to.
            let is_it =
                matches!(before.kind, EntryKind::File(_)) && self.has(path, before, contents)?;
            return Ok(if is_it {
                Vec::new()
            } else {
                vec![Aspect::Contents]
            });
        }
        let mut aspects = Vec::new();
        let is_other = match (&before.kind, &after.kind) {
            (EntryKind::File(_), EntryKind::File(Contents::AsBefore)) => false,
            (EntryKind::File(_), EntryKind::File(contents)) => !self.has(path, before, contents)?,
            (before, after) => before != after,
        };
        if is_other {
            aspects.push(Aspect::Contents);
        }
        if before.permissions != after.permissions {
            aspects.push(Aspect::Mode);
        }
        if (before.uid, before.gid) != (after.uid, after.gid) {
            aspects.push(Aspect::Owner);
        }
        for (name, value) in &after.xattrs {
            let xattrs = self.guest.xattrs(root_or(path))?;
            let mut xattrs = xattrs.iter();
            if !xattrs.any(|(known, old)| known == name.as_bytes() && old == value) {
                aspects.push(Aspect::Xattrs);
                break;
            }
        }
        Ok(aspects)
    }
}

/// Returns true if the kind stays the same. A new directory counts as another one, because the
/// contents of the old one are gone.
fn is_same_kind(before: &Entry, after: &Entry) -> bool {
    let is_new_dir = after.kind == EntryKind::Directory && after.is_new;
    !is_new_dir && std::mem::discriminant(&before.kind) == std::mem::discriminant(&after.kind)
}
