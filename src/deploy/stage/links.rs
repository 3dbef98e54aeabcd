//! Files with several names.

use diskfs_vfs::{self as vfs, Follow};

use super::{Contents, Kind, Stage};
use crate::Result;

impl Stage {
    /// Makes a path one more name of the file that `first` names, in place of a file or symlink that is there. Of a
    /// symlink, which is not followed, it is another one.
    ///
    /// # Errors
    /// `NotFound` without that file, or the directory above the path; `IsADirectory` for a directory that is in its
    /// place; `Invalid` for what is no file.
    pub fn hard_link(&mut self, path: &str, first: &str) -> Result<()> {
        let mut first = self.place(first, Follow::AllButLast)?;
        match self.at(&first)?.map(|entry| entry.kind) {
            Some(Kind::File(Contents::SameAs(other))) => first = other,
            Some(Kind::File(_)) => {}
            Some(Kind::Symlink(target)) => return self.symlink(path, &target),
            None => return Err(self.error(vfs::ErrorKind::NotFound, "is not there", &first)),
            Some(other) => {
                let reason = format!("is a {}, which has one name only", other.name());
                return Err(self.error(vfs::ErrorKind::Invalid, reason, &first));
            }
        }
        let place = self.place(path, Follow::AllButLast)?;
        let kind = Kind::File(Contents::SameAs(first.clone()));
        match self.at(&place)? {
            Some(_) if place == first => return Ok(()),
            Some(entry) if entry.kind == kind => return Ok(()),
            Some(entry) if entry.kind == Kind::Directory => {
                return Err(self.error(vfs::ErrorKind::IsADirectory, "is a directory", &place));
            }
            Some(entry) if !entry.is_new && self.is_one_file(&place, &first)? => return Ok(()),
            Some(_) => self.check_no_first_name(&place)?,
            None => {}
        }
        let entry = self.new_at(&place, kind, 0o644)?;
        self.has_links = true;
        self.put(place, Some(entry));
        Ok(())
    }

    /// Whether the guest has one file with both names.
    pub(super) fn is_one_file(&self, place: &str, first: &str) -> Result<bool> {
        if self.of_guest(place)?.is_none() || self.of_guest(first)?.is_none() {
            return Ok(false);
        }
        // What is made anew is another file, whatever was there.
        if self.at(first)?.is_none_or(|entry| entry.is_new) {
            return Ok(false);
        }
        let inode = |path: &str| self.guest.resolve(path, Follow::AllButLast);
        Ok(inode(place)? == inode(first)?)
    }

    /// That nothing at or below a path is named by a name that was made of it.
    pub(super) fn check_no_first_name(&self, place: &str) -> Result<()> {
        if !self.has_links {
            return Ok(());
        }
        let below = format!("{place}/");
        for (path, node) in &self.nodes {
            let Some(Kind::File(Contents::SameAs(first))) = node.as_ref().map(|node| &node.kind)
            else {
                continue;
            };
            let is_in = first == place || first.starts_with(&below);
            if is_in && path != place && !path.starts_with(&below) {
                let reason = format!("is a name of {path}, too: remove that first");
                return Err(self.error(vfs::ErrorKind::Invalid, reason, first));
            }
        }
        Ok(())
    }
}
