//! Listing of all files below a directory.

use std::collections::BTreeSet;

use super::{EntryKind, Stage, root_or};
use diskfs_disk::Result;

/// The limit on the files that are listed, which is larger than any real directory of settings or
/// state.
const MAX_ENTRIES: usize = 1_000_000;

/// The result of [`Stage::files_below`].
#[derive(Debug)]
pub(in super::super) struct FilesBelow {
    /// The paths, sorted.
    pub(in super::super) files: BTreeSet<String>,
    /// True if all entries were examined.
    pub(in super::super) is_complete: bool,
}

impl Stage {
    /// Returns the regular files below a directory whose names are wanted. Symlinks are not
    /// followed, and the directory itself must not be one. Names that are not valid UTF-8 and
    /// unreadable directories are skipped.
    ///
    /// # Errors
    /// The errors of reading the guest.
    pub(in super::super) fn files_below(
        &self,
        dir: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<FilesBelow> {
        let mut found = FilesBelow {
            files: BTreeSet::new(),
            is_complete: true,
        };
        let is_dir = |entry: super::Entry| entry.kind == EntryKind::Directory;
        if !self.link_entry(dir)?.is_some_and(is_dir) {
            return Ok(found);
        }
        let place = self.resolved(dir)?;
        let mut paths = BTreeSet::new();
        if let Ok(walk) = self.guest.walk(root_or(&place)) {
            let mut entries = 0;
            for entry in walk {
                entries += 1;
                if entries > MAX_ENTRIES {
                    found.is_complete = false;
                    break;
                }
                let Ok(entry) = entry else {
                    found.is_complete = false;
                    continue;
                };
                let is_it = str::from_utf8(entry.name()).is_ok_and(&is_wanted);
                if let (true, Ok(path)) = (is_it, String::from_utf8(entry.path)) {
                    paths.insert(format!("{place}/{path}"));
                }
            }
        }
        let below = format!("{place}/");
        let staged = self.nodes.range(below.clone()..);
        let staged = staged.map(|(path, _)| path);
        let staged = staged.take_while(|path| path.starts_with(&below));
        let is_it = |path: &&String| path.rsplit('/').next().is_some_and(&is_wanted);
        paths.extend(staged.filter(is_it).cloned());
        for path in paths {
            if self
                .entry_at(&path)?
                .is_some_and(|it| matches!(it.kind, EntryKind::File(_)))
            {
                found.files.insert(path);
            }
        }
        Ok(found)
    }
}
