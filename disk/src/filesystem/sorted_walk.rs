//! A walk of a directory tree in the order of names, so that listings and archives do not depend on
//! the order in which a directory happens to be stored.

use std::collections::HashSet;
use std::fmt;

use diskfs_vfs::{
    self as vfs, DirEntry, ErrorKind, FsRead, InodeNumber, Metadata, WALK_PATH_MAX_BYTES,
};

use super::Filesystem;
use crate::Result;

/// A file that a [`SortedWalk`] yields.
#[derive(Debug, Clone)]
pub struct SortedEntry {
    /// The path relative to the start, without a leading slash; empty for the start itself.
    pub path: Vec<u8>,
    /// The metadata, as lstat(2) returns it.
    pub metadata: Metadata,
    /// The number of directories between the start and the file: 0 for the start.
    pub depth: usize,
    /// True if this is the last entry of its directory.
    pub last: bool,
}

impl SortedEntry {
    /// Returns the last component of the path; empty for the start.
    pub fn name(&self) -> &[u8] {
        self.path
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default()
    }
}

/// Returns the entries of a directory in the order of their names, without `.` and `..`.
pub(crate) fn sorted_entries(fs: &dyn FsRead, dir: InodeNumber) -> vfs::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in fs.read_dir(dir, 0)? {
        let entry = entry?;
        if entry.name == b"." || entry.name == b".." {
            continue;
        }
        if entry.name.is_empty() || entry.name.contains(&b'/') || entry.name.contains(&0) {
            let reason = "invalid directory entry: the name is empty or contains a slash";
            return Err(vfs::Error::new(ErrorKind::Corrupt, reason).in_inode(dir));
        }
        entries.push(entry);
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// The iterator of [`Node::walk_sorted`](super::Node::walk_sorted): a file and everything below it.
/// It yields a directory before its entries and does not follow symlinks. An error is one item,
/// with the image and the whole path; the walk continues after it.
pub struct SortedWalk<'a> {
    filesystem: &'a Filesystem,
    root: Vec<u8>,
    filter: Option<Filter<'a>>,
    start: Option<InodeNumber>,
    /// The directory that was yielded last, which is entered next.
    enter: Option<InodeNumber>,
    /// The path of the entry that was yielded last.
    path: Vec<u8>,
    levels: Vec<Level>,
    visited: HashSet<InodeNumber>,
}

/// A predicate on names.
type NameFilter<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// The names that the walk yields.
struct Filter<'a> {
    name: NameFilter<'a>,
    directories_only: bool,
}

struct Level {
    /// The length of the part of the walk's path that names this directory.
    path_len: usize,
    children: std::vec::IntoIter<DirEntry>,
}

impl<'a> SortedWalk<'a> {
    pub(super) fn new(filesystem: &'a Filesystem, inode: InodeNumber, path: &[u8]) -> Self {
        Self {
            filesystem,
            root: path.to_vec(),
            filter: None,
            start: Some(inode),
            enter: None,
            path: Vec::new(),
            levels: Vec::new(),
            visited: HashSet::new(),
        }
    }

    /// Yields only files whose name satisfies `name` and, with `directories_only`, only
    /// directories.
    pub fn set_filter(&mut self, name: impl Fn(&[u8]) -> bool + 'a, directories_only: bool) {
        self.filter = Some(Filter {
            name: Box::new(name),
            directories_only,
        });
    }

    /// Skips the entries of the directory that was yielded last.
    pub fn skip_dir(&mut self) {
        self.enter = None;
    }

    fn descend(&mut self, dir: InodeNumber) -> vfs::Result<()> {
        let children = sorted_entries(self.filesystem.as_fs(), dir);
        let mut children = children.map_err(|e| e.in_path(display_path(&self.path)))?;
        if let Some(filter) = &self.filter {
            children.retain(|child| (filter.name)(&child.name));
        }
        let inodes: Vec<_> = children.iter().map(|child| child.inode).collect();
        let fs = self.filesystem.as_fs();
        fs.will_need_metadata(&inodes);
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| filter.directories_only)
        {
            // A file whose metadata can't be read is kept, so that its error is reported.
            let is_dir = |inode| fs.metadata(inode).map_or(true, |m| m.is_dir());
            children.retain(|child| is_dir(child.inode));
        }
        self.levels.push(Level {
            path_len: self.path.len(),
            children: children.into_iter(),
        });
        Ok(())
    }

    fn step(&mut self) -> Option<vfs::Result<SortedEntry>> {
        if let Some(start) = self.start.take() {
            return Some(self.entry(start, true));
        }
        if let Some(dir) = self.enter.take()
            && let Err(error) = self.descend(dir)
        {
            return Some(Err(error));
        }
        loop {
            let level = self.levels.last_mut()?;
            if let Some(child) = level.children.next() {
                let last = level.children.len() == 0;
                self.path.truncate(level.path_len);
                if !self.path.is_empty() {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(&child.name);
                return Some(self.entry(child.inode, last));
            }
            self.levels.pop();
        }
    }

    /// Returns the entry for the current path of the walk.
    fn entry(&mut self, inode: InodeNumber, last: bool) -> vfs::Result<SortedEntry> {
        let path = self.path.clone();
        let metadata = self
            .filesystem
            .as_fs()
            .metadata(inode)
            .map_err(|e| e.in_path(display_path(&path)))?;
        let depth = self.levels.len();
        if metadata.is_dir() {
            if !self.visited.insert(inode) {
                let reason = "the directory has several names, or contains itself";
                return Err(corrupt(reason, inode, &path));
            }
            if path.len() > WALK_PATH_MAX_BYTES {
                return Err(corrupt("the path is longer than 512 KiB", inode, &path));
            }
            self.enter = Some(inode);
        }
        Ok(SortedEntry {
            path,
            metadata,
            depth,
            last,
        })
    }
}

fn corrupt(reason: &'static str, inode: InodeNumber, path: &[u8]) -> vfs::Error {
    vfs::Error::new(ErrorKind::Corrupt, reason)
        .in_inode(inode)
        .in_path(display_path(path))
}

/// Returns a path of the walk in the form that messages use.
fn display_path(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        b".".to_vec()
    } else {
        path.to_vec()
    }
}

impl Iterator for SortedWalk<'_> {
    type Item = Result<SortedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.step()?;
        Some(entry.map_err(|e| self.filesystem.in_image(e.below(&self.root))))
    }
}

impl fmt::Debug for SortedWalk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedWalk")
            .field("path", &String::from_utf8_lossy(&self.path))
            .field("depth", &self.levels.len())
            .finish_non_exhaustive()
    }
}
