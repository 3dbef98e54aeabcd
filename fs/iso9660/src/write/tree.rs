//! The tree of a new volume: its directories in the order of path tables.

use std::collections::BTreeMap;

use crate::error::Result;

use super::{NewFile, invalid};

/// The most levels of directories, the root included (ECMA-119, 6.8.2.1).
const MAX_LEVELS: usize = 8;

/// The longest name: Joliet stores 64 characters of it.
const MAX_NAME_BYTES: usize = 64;

/// A directory, or a file by its number in the list of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    Directory(usize),
    File(usize),
}

/// A directory of the tree.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// The number of the parent; that of the root is its own.
    pub(super) parent: usize,
    pub(super) children: BTreeMap<String, Child>,
}

/// The directories, the root first, and parents before their children.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) directories: Vec<Directory>,
}

impl Tree {
    /// Returns the tree of all files.
    pub(super) fn of(files: &[NewFile]) -> Result<Self> {
        let mut tree = Self {
            directories: vec![Directory::default()],
        };
        for (number, file) in files.iter().enumerate() {
            tree.add(&file.path, number)?;
        }
        Ok(tree)
    }

    /// Adds the file with this number, and its directories.
    fn add(&mut self, path: &str, number: usize) -> Result<()> {
        let names: Vec<&str> = path.split('/').collect();
        if names.len() > MAX_LEVELS {
            return Err(invalid(format!("path `{path}` has too many directories")));
        }
        if let Some(name) = names.iter().find(|name| !is_valid(name)) {
            let reason = format!("invalid file name `{}`", name.escape_debug());
            return Err(invalid(reason));
        }
        let twice = || invalid(format!("file `{path}` is in the volume twice"));
        let Some((name, parents)) = names.split_last() else {
            return Err(invalid("missing file name"));
        };
        let mut at = 0;
        for parent in parents {
            at = self.enter(at, parent).ok_or_else(twice)?;
        }
        let directory = self.directories.get_mut(at).ok_or_else(twice)?;
        let before = directory
            .children
            .insert((*name).to_owned(), Child::File(number));
        before.map_or(Ok(()), |_| Err(twice()))
    }

    /// Returns the number of a directory in another one, which is added if it is missing; `None` if
    /// a file has its name.
    fn enter(&mut self, at: usize, name: &str) -> Option<usize> {
        let next = self.directories.len();
        let child = self
            .directories
            .get_mut(at)?
            .children
            .entry(name.to_owned());
        match *child.or_insert(Child::Directory(next)) {
            Child::File(_) => None,
            Child::Directory(found) => {
                if found == next {
                    self.directories.push(Directory {
                        parent: at,
                        ..Directory::default()
                    });
                }
                Some(found)
            }
        }
    }
}

fn is_valid(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(is_plain)
        && name != "."
        && name != ".."
}
