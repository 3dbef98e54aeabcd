//! Resolution of paths in a stage.

use std::sync::PoisonError;

use diskfs_vfs::{self as vfs, Follow};

use super::{Contents, Entry, EntryKind, KNOWN_MAX, Stage, kind_of, root_or};
use diskfs_disk::{ErrorKind, Result};

/// The limit on the symlinks in a path, which is Linux's limit.
const MAX_SYMLINKS: usize = 40;

/// `PATH_MAX` of Linux without its NUL.
const PATH_MAX_BYTES: usize = 4095;

impl Stage {
    /// Returns the path with symlinks resolved, whether or not it exists; "" for the root.
    pub(super) fn resolved_path(&self, path: &str, follow: Follow) -> Result<String> {
        let mut place = String::new();
        let mut rest = names(path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                place.truncate(place.rfind('/').unwrap_or(0));
                continue;
            }
            let here = format!("{place}/{name}");
            if here.len() > PATH_MAX_BYTES || here.contains('\0') {
                return Err(self.error(
                    vfs::ErrorKind::NameTooLong,
                    "invalid path: too long, or it contains a NUL",
                    path,
                ));
            }
            let is_last = rest.is_empty();
            match self.entry_at(&here)?.map(|entry| entry.kind) {
                Some(EntryKind::Symlink(target)) if !is_last || follow == Follow::All => {
                    links += 1;
                    if links > MAX_SYMLINKS {
                        let reason = "too many levels of symbolic links";
                        return Err(self.error(vfs::ErrorKind::TooManyLinks, reason, path));
                    }
                    if target.starts_with('/') {
                        place.clear();
                    }
                    rest.append(&mut names(&target));
                }
                Some(EntryKind::File(_) | EntryKind::Other(_)) if !is_last => {
                    return Err(self.error(
                        vfs::ErrorKind::NotADirectory,
                        "not a directory",
                        &here,
                    ));
                }
                Some(EntryKind::File(Contents::HardLinkTo(first))) if follow == Follow::All => {
                    place = first;
                }
                _ => place = here,
            }
        }
        Ok(place)
    }

    /// Returns the entry of a path without symlinks.
    pub(super) fn entry_at(&self, place: &str) -> Result<Option<Entry>> {
        if let Some(node) = self.nodes.get(place) {
            return Ok(node.clone());
        }
        self.before(place)
    }

    /// Returns true if a parent directory was removed or replaced, so that nothing of the guest is
    /// visible at the path.
    fn is_hidden(&self, place: &str) -> bool {
        let mut ends = place.match_indices('/').map(|(at, _)| at);
        ends.any(|end| {
            let above = self.nodes.get(place.get(..end).unwrap_or_default());
            above.is_some_and(|node| node.as_ref().is_none_or(|entry| entry.is_new))
        })
    }

    /// Returns the entry of the guest that a change of this path replaces: `None` if the change of a
    /// parent directory has removed it before.
    pub(super) fn before(&self, place: &str) -> Result<Option<Entry>> {
        if self.is_hidden(place) {
            return Ok(None);
        }
        self.of_guest(place)
    }

    /// Returns the guest's own entry of a path without symlinks.
    pub(super) fn of_guest(&self, place: &str) -> Result<Option<Entry>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get(place) {
            return Ok(entry.clone());
        }
        let above = place.rsplit_once('/').map(|(above, _)| above);
        let is_below_nothing = above.is_some_and(|above| matches!(known.get(above), Some(None)));
        let entry = if is_below_nothing {
            None
        } else {
            self.look_up(place)?
        };
        if known.len() < KNOWN_MAX {
            known.insert(place.to_owned(), entry.clone());
        }
        Ok(entry)
    }

    /// Looks a path without symlinks up in the guest.
    fn look_up(&self, place: &str) -> Result<Option<Entry>> {
        let path = root_or(place);
        let metadata = match self.guest.symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let kind = match kind_of(metadata.file_type) {
            Some(kind) => kind,
            None => self.symlink_of_guest(path)?,
        };
        Ok(Some(Entry {
            kind,
            permissions: metadata.permissions,
            uid: metadata.uid,
            gid: metadata.gid,
            size_bytes: metadata.size_bytes,
            xattrs: std::collections::BTreeMap::new(),
            is_new: false,
        }))
    }

    fn symlink_of_guest(&self, path: &str) -> Result<EntryKind> {
        let target = self.guest.read_link(path)?;
        let target = String::from_utf8(target).map_err(|_| {
            let reason = "cannot follow the symlink: its target is not valid UTF-8";
            self.error(vfs::ErrorKind::Invalid, reason, path)
        })?;
        Ok(EntryKind::Symlink(target))
    }
}

/// Returns the components of a path in reverse order.
fn names(path: &str) -> Vec<String> {
    let names = path.split('/').rev();
    let names = names.filter(|name| !name.is_empty() && *name != ".");
    names.map(str::to_owned).collect()
}
