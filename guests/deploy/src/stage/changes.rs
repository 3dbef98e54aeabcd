//! What a stage changes of its guest.

use super::{Contents, Entry, Kind, Stage, root_or};
use diskfs_disk::Result;

/// What becomes of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path, without symlinks.
    pub path: String,
    /// What was there.
    pub before: Option<Entry>,
    /// What is there then.
    pub after: Option<Entry>,
    /// What is different; nothing for what is made or removed.
    pub aspects: Vec<Aspect>,
}

/// What of a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// What is in it.
    Contents,
    /// The low 12 bits of its mode.
    Mode,
    /// Its owner or group.
    Owner,
    /// Its extended attributes.
    Xattrs,
}

impl Stage {
    /// All changes, by path. What was changed and changed back is none.
    ///
    /// # Errors
    /// What keeps one from knowing what the guest has.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (path, after) in &self.nodes {
            let before = self.of_guest(path)?;
            changes.extend(self.change_of(path, before, after.clone())?);
        }
        Ok(changes)
    }

    /// Whether a path that was touched may be other than in the guest. Large contents are not compared for this.
    pub(in super::super) fn may_change(&self, path: &str) -> Result<bool> {
        let Some(after) = self.nodes.get(path) else {
            return Ok(false);
        };
        let is_small = match after.as_ref().map(|entry| &entry.kind) {
            Some(Kind::File(contents)) => {
                matches!(contents, Contents::AsBefore | Contents::Bytes(_))
            }
            _ => true,
        };
        if !is_small {
            return Ok(true);
        }
        let change = self.change_of(path, self.of_guest(path)?, after.clone())?;
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
        if let Kind::File(contents @ Contents::SameAs(_)) = &after.kind {
            // Mode, owner and attributes are those of its first name.
            let is_it = matches!(before.kind, Kind::File(_)) && self.has(path, before, contents)?;
            return Ok(if is_it {
                Vec::new()
            } else {
                vec![Aspect::Contents]
            });
        }
        let mut aspects = Vec::new();
        let is_other = match (&before.kind, &after.kind) {
            (Kind::File(_), Kind::File(Contents::AsBefore)) => false,
            (Kind::File(_), Kind::File(contents)) => !self.has(path, before, contents)?,
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

/// A directory that is made anew is not the one that was there: what was in that is gone.
fn is_same_kind(before: &Entry, after: &Entry) -> bool {
    let is_new_dir = after.kind == Kind::Directory && after.is_new;
    !is_new_dir && std::mem::discriminant(&before.kind) == std::mem::discriminant(&after.kind)
}
