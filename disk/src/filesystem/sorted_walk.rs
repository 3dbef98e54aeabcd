//! Everything below a directory in the order of names, so that what is printed or packed does not
//! depend on how the directory happens to be stored.

use std::collections::HashSet;
use std::fmt;

use diskfs_vfs::{
    self as vfs, DirEntry, ErrorKind, FsRead, InodeNumber, Metadata, WALK_PATH_MAX_BYTES,
};

use super::Filesystem;
use crate::Result;

/// A file that a [`SortedWalk`] comes by.
#[derive(Debug, Clone)]
pub struct SortedEntry {
    /// The path from the start, without a leading slash; empty for the start itself.
    pub path: Vec<u8>,
    /// The metadata, as of lstat(2).
    pub metadata: Metadata,
    /// The number of directories above it: 0 for the start.
    pub depth: usize,
    /// True for the last entry of its directory.
    pub last: bool,
}

impl SortedEntry {
    /// Returns the last name of the path; empty for the start.
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
            let reason = "directory has a name that is none";
            return Err(vfs::Error::new(ErrorKind::Corrupt, reason).in_inode(dir));
        }
        entries.push(entry);
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// The iterator of [`Node::walk_sorted`](super::Node::walk_sorted): a file and everything below it. A directory comes before
/// what is in it. Symlinks are not followed. An error is one item, with the image and the whole path,
/// and the walk goes on behind it.
pub struct SortedWalk<'a> {
    filesystem: &'a Filesystem,
    root: Vec<u8>,
    filter: Option<Filter<'a>>,
    start: Option<InodeNumber>,
    /// The directory that came last, to be entered next.
    enter: Option<InodeNumber>,
    /// The path of what came last.
    path: Vec<u8>,
    levels: Vec<Level>,
    visited: HashSet<InodeNumber>,
}

/// Says which names are wanted.
type NameFilter<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// Which names a walk comes by at all.
struct Filter<'a> {
    name: NameFilter<'a>,
    directories_only: bool,
}

struct Level {
    /// How much of the walk's path leads to this directory.
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

    /// Keeps the names for which `name` returns true, of directories only if `directories_only` says so.
    pub fn keep(&mut self, name: impl Fn(&[u8]) -> bool + 'a, directories_only: bool) {
        self.filter = Some(Filter {
            name: Box::new(name),
            directories_only,
        });
    }

    /// Leaves out what is below the directory that came last.
    pub fn skip_dir(&mut self) {
        self.enter = None;
    }

    fn descend(&mut self, dir: InodeNumber) -> vfs::Result<()> {
        let children = sorted_entries(self.filesystem.as_fs(), dir);
        let mut children = children.map_err(|e| e.in_path(shown(&self.path)))?;
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
            // What can't be read stays: its error is to be told.
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

    /// Returns what the walk's path names.
    fn entry(&mut self, inode: InodeNumber, last: bool) -> vfs::Result<SortedEntry> {
        let path = self.path.clone();
        let metadata = self
            .filesystem
            .as_fs()
            .metadata(inode)
            .map_err(|e| e.in_path(shown(&path)))?;
        let depth = self.levels.len();
        if metadata.is_dir() {
            if !self.visited.insert(inode) {
                let reason = "directory has several names, or contains itself";
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
        .in_path(shown(path))
}

/// A path of the walk for a message.
fn shown(path: &[u8]) -> Vec<u8> {
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
