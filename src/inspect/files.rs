//! The guest's files, as far as questions are answered from them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use diskfs_vfs::{DirEntry, Follow};
use serde::Serialize;

use crate::{ErrorKind, Filesystem};

/// More than any file of settings: what is larger is none.
pub(super) const SETTINGS_BYTES: u64 = 1 << 20;

/// More than any directory has that a question is answered from.
const MAX_ENTRIES: usize = 100_000;

/// Where an answer came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Source {
    /// The path in the guest.
    pub file: String,
    /// The line, from 1, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// What could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The path in the guest.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// Reads files of a guest, and keeps what went wrong: a broken one is an answer less, and no more.
pub(super) struct Files<'a> {
    filesystem: &'a Filesystem,
    sources: RefCell<BTreeMap<&'static str, Vec<Source>>>,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Files<'a> {
    pub(super) fn new(filesystem: &'a Filesystem) -> Self {
        Self {
            filesystem,
            sources: RefCell::default(),
            problems: RefCell::default(),
        }
    }

    pub(super) fn filesystem(&self) -> &'a Filesystem {
        self.filesystem
    }

    /// The contents of a file of at most so many bytes; `None` when there is none, or it can't be read, which
    /// is kept.
    pub(super) fn bytes(&self, path: &str, limit_bytes: u64) -> Option<Vec<u8>> {
        self.keep_problem(path, self.filesystem.read_at_most(path, limit_bytes))
    }

    /// The text of a file of settings. What is no UTF-8 in it becomes U+FFFD.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path, SETTINGS_BYTES)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The names in a directory, in their order; none when there is none.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = self.keep_problem(path, self.entries(path));
        let entries = entries.unwrap_or_default();
        if entries.len() >= MAX_ENTRIES {
            let reason = format!("entries beyond the {MAX_ENTRIES}th are left out");
            self.complain(path, reason);
        }
        // Programs of the guest would not find others.
        let names = entries
            .into_iter()
            .map(|entry| String::from_utf8(entry.name));
        let names = names.filter_map(Result::ok);
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
        names.sort();
        names
    }

    fn entries(&self, path: &str) -> crate::Result<Vec<DirEntry>> {
        let in_image = |error| self.filesystem.in_image(error);
        let dir = self.filesystem.resolve(path, Follow::All)?;
        let entries = self.filesystem.as_fs().read_dir(dir, 0);
        let entries = entries.map_err(in_image)?.take(MAX_ENTRIES);
        entries.map(|entry| entry.map_err(in_image)).collect()
    }

    /// Whether there is something.
    pub(super) fn exists(&self, path: &str) -> bool {
        let exists = self.filesystem.exists(path);
        self.keep_problem(path, exists).unwrap_or(false)
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
        self.problems.borrow_mut().push(Problem {
            file: path.to_owned(),
            reason: reason.into(),
        });
    }

    fn keep_problem<T>(&self, path: &str, read: crate::Result<T>) -> Option<T> {
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

/// Lines with their numbers from 1, without those that are empty or begin with `#`, and without blanks around
/// them.
pub(super) fn settings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The value that a shell's assignment gives to a name, and its line; the last one counts.
pub(super) fn assigned(text: &str, name: &str) -> Option<(usize, String)> {
    let values = settings(text).filter_map(|(number, line)| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (found, value) = line.split_once('=')?;
        (found.trim() == name).then(|| (number, unquote(value.trim())))
    });
    values.last().filter(|(_, value)| !value.is_empty())
}

/// Takes quotes around a value away.
fn unquote(value: &str) -> String {
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let rest = value.strip_prefix(quote)?;
        rest.split_once(quote).map(|(inner, _)| inner)
    });
    let bare = || value.split_whitespace().next().unwrap_or_default();
    quoted.unwrap_or_else(bare).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_those_of_a_shell() {
        let text = "# LANG=x\nLANG=C\n export LANG=\"de_DE.UTF-8\" # all\nTZ='A b'\nNONE=\n";
        assert_eq!(assigned(text, "LANG"), Some((3, "de_DE.UTF-8".to_owned())));
        assert_eq!(assigned(text, "TZ"), Some((4, "A b".to_owned())));
        assert_eq!(assigned(text, "NONE"), None);
        assert_eq!(assigned(text, "LAN"), None);
    }
}
