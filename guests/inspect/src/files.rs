//! The guest's files, as far as questions are answered from them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;

use diskfs_vfs::FileType;
use diskfs_vfs::glob::{Case, Pattern, is_pattern};
use serde::Serialize;

use crate::problem::Problem;
use diskfs_disk::FileDevice;
use diskfs_disk::{ErrorKind, Filesystem};

/// More than any file of settings: what is larger is none.
pub(super) const SETTINGS_BYTES: u64 = 1 << 20;

/// More than any directory has that a question is answered from.
const MAX_ENTRIES: usize = 100_000;

/// More files than one pattern is for.
const MAX_PATHS: usize = 10_000;

/// Whether a file's name ends with a dot and this.
pub(super) fn has_extension(name: &str, extension: &str) -> bool {
    let found = name.rsplit_once('.').map(|(_, found)| found);
    found == Some(extension)
}

/// Where an answer came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Source {
    /// The path in the guest.
    pub file: String,
    /// The line, from 1, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// Reads files of a guest, and keeps what went wrong: a broken one is an answer less, and no more.
#[derive(Debug)]
pub(super) struct Files<'a> {
    filesystem: &'a Filesystem,
    sources: RefCell<BTreeMap<&'static str, Vec<Source>>>,
    problems: RefCell<Vec<Problem>>,
    left: Cell<Budget>,
}

/// What may still be read of a guest: directories of a hundred thousand files of a mebibyte each would never end, nor
/// directories of directories that all have the same blocks.
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

    /// The contents of a file of at most so many bytes; `None` when there is none, or it can't be read, which
    /// is kept.
    pub(super) fn bytes(&self, path: &str, limit_bytes: u64) -> Option<Vec<u8>> {
        let left = self.left.get();
        if left.files == 0 || left.bytes == 0 {
            return None;
        }
        let limit_bytes = limit_bytes.min(left.bytes);
        let bytes = self.keep_problem(path, self.filesystem.read_at_most(path, limit_bytes))?;
        let left = Budget {
            files: left.files - 1,
            bytes: left.bytes.saturating_sub(bytes.len() as u64),
            ..left
        };
        if left.files == 0 || left.bytes == 0 {
            self.complain(
                path,
                "more is not read: the guest has too many files of settings",
            );
        }
        self.left.set(left);
        Some(bytes)
    }

    /// The text of a file of settings. What is no UTF-8 in it becomes U+FFFD.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path, SETTINGS_BYTES)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file that is too large to be held; `None` when there is none, or it can't be opened, which is kept.
    pub(super) fn open(&self, path: &str) -> Option<FileDevice> {
        let opened = self.filesystem.open(path).map(FileDevice);
        self.keep_problem(path, opened)
    }

    /// The names in a directory, in their order; none when there is none.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let left = self.left.get();
        let room = left.entries.min(MAX_ENTRIES);
        if room == 0 {
            return Vec::new();
        }
        let listed = self.keep_problem(path, self.filesystem.names_at_most(path, room));
        let listed = listed.unwrap_or_default();
        if listed.entries >= room {
            let reason = format!("entries beyond the {room}th are left out");
            self.complain(path, reason);
        }
        self.left.set(Budget {
            entries: left.entries.saturating_sub(listed.entries),
            ..left
        });
        listed.names
    }

    /// Returns the paths that a pattern may stand for (glob(7)), sorted: names in it without `*`, `?` and `[` are not
    /// looked for.
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
        // As for a shell, a name with a dot before it must be named.
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

    /// Whether there is something.
    pub(super) fn exists(&self, path: &str) -> bool {
        let exists = self.filesystem.exists(path);
        self.keep_problem(path, exists).unwrap_or(false)
    }

    /// Whether there is a regular file, behind whatever links.
    pub(super) fn is_file(&self, path: &str) -> bool {
        let metadata = self.filesystem.metadata(path);
        metadata.is_ok_and(|metadata| metadata.file_type == FileType::Regular)
    }

    /// When the contents of a regular file were last changed, in seconds since 1970.
    pub(super) fn changed_seconds(&self, path: &str) -> Option<i64> {
        let metadata = self.filesystem.metadata(path).ok()?;
        let is_file = metadata.file_type == FileType::Regular;
        is_file.then_some(metadata.modified.seconds)
    }

    /// The target of a symlink.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = self.filesystem.read_link(path).ok()?;
        String::from_utf8(target).ok()
    }

    /// Notes where the answer to a question came from.
    pub(super) fn came_from(&self, question: &'static str, path: &str, line: Option<usize>) {
        let source = Source {
            file: path.to_owned(),
            line,
        };
        let mut sources = self.sources.borrow_mut();
        sources.entry(question).or_default().push(source);
    }

    /// Notes what could not be understood.
    pub(super) fn complain(&self, path: &str, reason: impl Into<String>) {
        self.problems.borrow_mut().push(Problem::new(path, reason));
    }

    fn keep_problem<T>(&self, path: &str, read: diskfs_disk::Result<T>) -> Option<T> {
        let error = match read {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            self.complain(path, error.reason());
        }
        None
    }

    /// What came from where, and what went wrong.
    pub(super) fn finish(self) -> (BTreeMap<&'static str, Vec<Source>>, Vec<Problem>) {
        (self.sources.into_inner(), self.problems.into_inner())
    }
}

/// What can't be read is kept as a problem, and is as good as missing.
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
