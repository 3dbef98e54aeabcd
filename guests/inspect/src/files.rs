//! Access to the guest's files with limits and a list of problems.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;

use diskfs_vfs::FileType;
use diskfs_vfs::glob::{Case, Pattern, is_pattern};
use serde::Serialize;

use crate::problem::Problem;
use diskfs_disk::FileDevice;
use diskfs_disk::{ErrorKind, Filesystem};

/// The size limit of a configuration file.
pub(super) const SETTINGS_BYTES: u64 = 1 << 20;

/// The limit on entries of a directory, far above that of any directory that is read.
const MAX_ENTRIES: usize = 100_000;

/// The limit on paths that match a pattern.
const MAX_PATHS: usize = 10_000;

/// Returns true if a file's name ends with a dot and this extension.
pub(super) fn has_extension(name: &str, extension: &str) -> bool {
    let found = name.rsplit_once('.').map(|(_, found)| found);
    found == Some(extension)
}

/// The place in the guest that a fact was read from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Source {
    /// The path in the guest.
    pub file: String,
    /// The line number, from 1, if the fact is on a single line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// A reader of a guest's files that records failures as problems: an unreadable file costs only the
/// facts in it.
#[derive(Debug)]
pub(super) struct Files<'a> {
    filesystem: &'a Filesystem,
    sources: RefCell<BTreeMap<&'static str, Vec<Source>>>,
    problems: RefCell<Vec<Problem>>,
    left: Cell<Budget>,
}

/// The remaining budget of files, bytes and directory entries. Without it, a guest could make an
/// inspection endless, with a hundred thousand files of 1 MiB, or with directories that all share
/// the same blocks.
#[derive(Debug, Clone, Copy)]
struct Budget {
    files: u32,
    bytes: u64,
    entries: usize,
}

impl<'a> Files<'a> {
    pub(super) fn new(filesystem: &'a Filesystem) -> Self {
        Self {
            filesystem,
            sources: RefCell::default(),
            problems: RefCell::default(),
            left: Cell::new(Budget {
                files: 50_000,
                bytes: 512 << 20,
                entries: 20 * MAX_ENTRIES,
            }),
        }
    }

    pub(super) fn filesystem(&self) -> &'a Filesystem {
        self.filesystem
    }

    /// Returns the contents of a file of at most `limit_bytes`. Returns `None` if the file is
    /// missing, or if it can't be read, which becomes a problem.
    pub(super) fn bytes(&self, path: &str, limit_bytes: u64) -> Option<Vec<u8>> {
        let left = self.left.get();
        if left.files == 0 || left.bytes == 0 {
            return None;
        }
        let limit_bytes = limit_bytes.min(left.bytes);
        let bytes =
            self.ok_or_add_problem(path, self.filesystem.read_at_most(path, limit_bytes))?;
        let left = Budget {
            files: left.files - 1,
            bytes: left.bytes.saturating_sub(bytes.len() as u64),
            ..left
        };
        if left.files == 0 || left.bytes == 0 {
            self.add_problem(
                path,
                "too many configuration files: further files are not read",
            );
        }
        self.left.set(left);
        Some(bytes)
    }

    /// Returns the text of a configuration file. Invalid UTF-8 becomes U+FFFD.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path, SETTINGS_BYTES)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Opens a file that is too large for memory. Returns `None` if the file is missing, or if it
    /// can't be opened, which becomes a problem.
    pub(super) fn open(&self, path: &str) -> Option<FileDevice> {
        let opened = self.filesystem.open(path).map(FileDevice);
        self.ok_or_add_problem(path, opened)
    }

    /// Returns the names in a directory, sorted; empty if the directory is missing.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let left = self.left.get();
        let room = left.entries.min(MAX_ENTRIES);
        if room == 0 {
            return Vec::new();
        }
        let listed = self.ok_or_add_problem(path, self.filesystem.names_at_most(path, room));
        let listed = listed.unwrap_or_default();
        if listed.entries >= room {
            let reason =
                format!("too many directory entries: those after the first {room} are not read");
            self.add_problem(path, reason);
        }
        self.left.set(Budget {
            entries: left.entries.saturating_sub(listed.entries),
            ..left
        });
        listed.names
    }

    /// Returns the paths that may match a pattern (glob(7)), sorted. Components without `*`, `?`
    /// and `[` are not checked for existence.
    pub(super) fn expand(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for name in pattern.split('/').filter(|name| !name.is_empty()) {
            let below = found.iter().flat_map(|dir| self.expand_name(dir, name));
            found = below.take(MAX_PATHS).collect();
        }
        found
    }

    fn expand_name(&self, dir: &str, name: &str) -> Vec<String> {
        if !is_pattern(name.as_bytes()) {
            return vec![format!("{dir}/{name}")];
        }
        let Ok(pattern) = Pattern::new(name, Case::Sensitive) else {
            return Vec::new();
        };
        let mut names = self.names(if dir.is_empty() { "/" } else { dir });
        // As in a shell, only a pattern with a leading dot matches a name with a leading dot.
        names.retain(|found| {
            let is_hidden = found.starts_with('.') && !name.starts_with('.');
            !is_hidden && pattern.matches(found)
        });
        names.sort();
        names
            .into_iter()
            .map(|name| format!("{dir}/{name}"))
            .collect()
    }

    /// Returns true if a file of any type exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        let exists = self.filesystem.exists(path);
        self.ok_or_add_problem(path, exists).unwrap_or(false)
    }

    /// Returns true if a regular file exists. Symlinks are followed.
    pub(super) fn is_file(&self, path: &str) -> bool {
        let metadata = self.filesystem.metadata(path);
        metadata.is_ok_and(|metadata| metadata.file_type == FileType::Regular)
    }

    /// Returns the modification time of a regular file, in seconds since 1970.
    pub(super) fn changed_seconds(&self, path: &str) -> Option<i64> {
        let metadata = self.filesystem.metadata(path).ok()?;
        let is_file = metadata.file_type == FileType::Regular;
        is_file.then_some(metadata.modified.seconds)
    }

    /// Returns the target of a symlink.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = self.filesystem.read_link(path).ok()?;
        String::from_utf8(target).ok()
    }

    /// Records the place that a fact was read from.
    pub(super) fn add_source(&self, question: &'static str, path: &str, line: Option<usize>) {
        let source = Source {
            file: path.to_owned(),
            line,
        };
        let mut sources = self.sources.borrow_mut();
        sources.entry(question).or_default().push(source);
    }

    /// Records a problem: a file that could not be read or understood.
    pub(super) fn add_problem(&self, path: &str, reason: impl Into<String>) {
        self.problems.borrow_mut().push(Problem::new(path, reason));
    }

    fn ok_or_add_problem<T>(&self, path: &str, read: diskfs_disk::Result<T>) -> Option<T> {
        let error = match read {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            self.add_problem(path, error.reason());
        }
        None
    }

    /// Returns the sources of the facts, and the problems.
    pub(super) fn finish(self) -> (BTreeMap<&'static str, Vec<Source>>, Vec<Problem>) {
        (self.sources.into_inner(), self.problems.into_inner())
    }
}

/// A file that can't be read becomes a problem, and counts as missing.
impl diskfs_etc::Files for Files<'_> {
    type Error = Infallible;

    fn text(&self, path: &str) -> Result<Option<String>, Infallible> {
        Ok(Files::text(self, path))
    }

    fn names(&self, dir: &str) -> Result<Vec<String>, Infallible> {
        let mut names = Files::names(self, dir);
        names.sort();
        Ok(names)
    }

    fn expand(&self, pattern: &str) -> Result<Vec<String>, Infallible> {
        Ok(Files::expand(self, pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        let tree = guest(&[
            ("/a/x.conf", ""),
            ("/b/x.conf", ""),
            ("/b/.y.conf", ""),
            ("/c", ""),
        ]);
        let files = Files::new(&tree);
        assert_eq!(files.expand("/*/*.conf"), ["/a/x.conf", "/b/x.conf"]);
        assert_eq!(files.expand("/b/.*f"), ["/b/.y.conf"]);
        assert_eq!(files.expand("/none/*"), [""; 0]);
        assert_eq!(files.finish().1, []);
    }

    #[test]
    fn what_is_read_of_a_guest_ends() {
        let tree = guest(&[("/a/1", "12345"), ("/a/2", "12345"), ("/b/3", "12345")]);
        let files = Files::new(&tree);
        files.left.set(Budget {
            files: 2,
            bytes: 1000,
            entries: 4, // with `.` and `..`
        });
        assert_eq!(files.names("/a"), ["1", "2"]);
        assert_eq!(files.names("/b"), [""; 0]);
        assert!(files.text("/a/1").is_some() && files.text("/a/2").is_some());
        assert_eq!(files.text("/b/3"), None);
        let told = files.finish().1;
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn the_last_file_may_be_larger_than_what_is_left() {
        let tree = guest(&[("/a", "12345"), ("/b", "12345")]);
        let files = Files::new(&tree);
        files.left.set(Budget {
            files: 9,
            bytes: 7,
            entries: 9,
        });
        assert!(files.text("/a").is_some());
        assert_eq!(files.text("/b"), None);
        assert_eq!(files.finish().1.len(), 1);
    }
}
