//! Hard links in a stage.

use diskfs_vfs::{self as vfs, Follow};

use super::{Contents, Entry, EntryKind, Stage};
use diskfs_disk::Result;

impl Stage {
    /// Creates a hard link at `path` to the file at `first`. It replaces an existing file or
    /// symlink. If `first` is a symlink, a copy of the symlink is created instead.
    ///
    /// # Errors
    /// `NotFound` if the file at `first` or the parent directory of `path` is missing;
    /// `IsADirectory` if a directory exists at `path`; `Invalid` if `first` is neither a file nor a
    /// symlink.
    pub fn hard_link(&mut self, path: &str, first: &str) -> Result<()> {
        let mut first = self.resolved_path(first, Follow::AllButLast)?;
        match self.entry_at(&first)?.map(|entry| entry.kind) {
            Some(EntryKind::File(Contents::HardLinkTo(other))) => first = other,
            Some(EntryKind::File(_)) => {}
            Some(EntryKind::Symlink(target)) => return self.symlink(path, &target),
            None => {
                return Err(self.error(
                    vfs::ErrorKind::NotFound,
                    "no such file or directory",
                    &first,
                ));
            }
            Some(other) => {
                let reason = format!("cannot create a hard link to a {}", other.name());
                return Err(self.error(vfs::ErrorKind::Invalid, reason, &first));
            }
        }
        let place = self.resolved_path(path, Follow::AllButLast)?;
        let kind = EntryKind::File(Contents::HardLinkTo(first.clone()));
        match self.entry_at(&place)? {
            Some(_) if place == first => return Ok(()),
            Some(entry) if entry.kind == kind => return Ok(()),
            Some(entry) if entry.kind == EntryKind::Directory => {
                return Err(self.error(vfs::ErrorKind::IsADirectory, "is a directory", &place));
            }
            Some(entry) if !entry.is_new && self.is_one_file(&place, &first)? => return Ok(()),
            Some(_) => self.check_no_first_name(&place)?,
            None => {}
        }
        let entry = self.new_at(&place, kind, 0o644)?;
        self.put(place, Some(entry));
        Ok(())
    }

    /// Returns true if both names refer to the same file in the guest.
    pub(super) fn is_one_file(&self, place: &str, first: &str) -> Result<bool> {
        if self.of_guest(place)?.is_none() || self.of_guest(first)?.is_none() {
            return Ok(false);
        }
        // A replaced file is a different file, even if the paths are equal.
        if self.entry_at(first)?.is_none_or(|entry| entry.is_new) {
            return Ok(false);
        }
        let inode = |path: &str| self.guest.resolve(path, Follow::AllButLast);
        Ok(inode(place)? == inode(first)?)
    }

    /// Checks that no file at or below a path has a new hard link elsewhere.
    pub(super) fn check_no_first_name(&self, place: &str) -> Result<()> {
        let below = format!("{place}/");
        let from = self.names.range(place.to_owned()..);
        // Other paths sort between a directory and its entries: `/a`, `/a-b`, `/a/b`.
        let firsts = from.take_while(|(first, _)| first.starts_with(place));
        for (first, names) in firsts {
            if first != place && !first.starts_with(&below) {
                continue;
            }
            let mut others = names.iter();
            let other = others.find(|name| *name != place && !name.starts_with(&below));
            if let Some(other) = other {
                let reason = format!(
                    "cannot remove or replace the file: {other} is a hard link to it; remove \
                     that first"
                );
                return Err(self.error(vfs::ErrorKind::Invalid, reason, first));
            }
        }
        Ok(())
    }

    /// Records that a path is a hard link of a file.
    pub(super) fn note_name(&mut self, place: &str, entry: Option<&Entry>) {
        if let Some(first) = first_name(entry) {
            let names = self.names.entry(first.to_owned()).or_default();
            names.insert(place.to_owned());
        }
    }

    /// Removes the record of a hard link.
    pub(super) fn forget_name(&mut self, place: &str, entry: Option<&Entry>) {
        let Some(first) = first_name(entry) else {
            return;
        };
        if let Some(names) = self.names.get_mut(first) {
            names.remove(place);
            if names.is_empty() {
                self.names.remove(first);
            }
        }
    }
}

fn first_name(entry: Option<&Entry>) -> Option<&str> {
    match &entry?.kind {
        EntryKind::File(Contents::HardLinkTo(first)) => Some(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::steps::testing::guest;

    #[test]
    fn what_is_written_by_one_name_is_in_both() {
        let stage = &mut guest("-- /etc/a --\nold\n").stage;
        stage.hard_link("/etc/b", "/etc/a").unwrap();
        stage.hard_link("/etc/c", "/etc/b").unwrap();
        stage.write_text("/etc/c", "new\n").unwrap();
        assert_eq!(stage.text("/etc/a").unwrap().unwrap(), "new\n");
        assert_eq!(stage.text("/etc/b").unwrap().unwrap(), "new\n");
        let changes = stage.changes().unwrap();
        let paths: Vec<&str> = changes.iter().map(|it| &*it.path).collect();
        assert_eq!(paths, ["/etc/a", "/etc/b", "/etc/c"]);
    }

    #[test]
    fn a_first_name_stays_as_long_as_there_are_others() {
        let stage = &mut guest("-- /etc/d/a --\nx\n-- /etc/d-e --\nx\n").stage;
        stage.hard_link("/etc/b", "/etc/d/a").unwrap();
        for path in ["/etc/d/a", "/etc/d"] {
            let told = stage.remove(path).unwrap_err().to_string();
            assert!(told.contains("/etc/b"), "{told}");
        }
        stage.remove("/etc/d-e").unwrap();
        stage.remove("/etc/b").unwrap();
        stage.remove("/etc/d").unwrap();
        assert!(!stage.exists("/etc/d/a").unwrap());
        assert!(stage.hard_link("/etc/b", "/etc/d/a").is_err());
    }
}
