//! Everything below a directory in the order of names, so that what is printed or packed does not
//! depend on how the directory happens to be stored.

use std::collections::HashSet;

use diskfs::vfs::{self, ErrorKind, FsRead, InodeNumber, Metadata, WALK_PATH_MAX_BYTES};

/// One name of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    pub(crate) name: Vec<u8>,
    pub(crate) inode: InodeNumber,
}

/// What a [`SortedWalk`] comes by.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The path from the start, without a leading slash; empty for the start itself.
    pub(crate) path: Vec<u8>,
    pub(crate) metadata: Metadata,
    /// How many directories lie above it: 0 for the start.
    pub(crate) depth: usize,
    /// Whether it is the last of its directory.
    pub(crate) last: bool,
}

impl Entry {
    pub(crate) fn name(&self) -> &[u8] {
        self.path
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default()
    }
}

/// The names in a directory but `.` and `..`, in order. The filesystem is told which metadata will
/// be asked for.
pub(crate) fn children(fs: &dyn FsRead, dir: InodeNumber) -> vfs::Result<Vec<Child>> {
    let mut children = Vec::new();
    for entry in fs.read_dir(dir, 0)? {
        let entry = entry?;
        if entry.name == b"." || entry.name == b".." {
            continue;
        }
        if entry.name.is_empty() || entry.name.contains(&b'/') || entry.name.contains(&0) {
            let reason = "directory has a name that is none";
            return Err(vfs::Error::new(ErrorKind::Corrupt, reason).in_inode(dir));
        }
        children.push(Child {
            name: entry.name,
            inode: entry.inode,
        });
    }
    children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(children)
}

/// Tells the filesystem that the metadata of all of them is wanted.
pub(crate) fn will_need(fs: &dyn FsRead, children: &[Child]) {
    let inodes: Vec<_> = children.iter().map(|child| child.inode).collect();
    fs.will_need_metadata(&inodes);
}

/// Goes through `start` and everything below it. A directory comes before what is in it. Symlinks
/// are not followed. An error is one item, with the path it is about, and the walk goes on behind it.
pub(crate) struct SortedWalk<'a> {
    fs: &'a dyn FsRead,
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
    children: std::vec::IntoIter<Child>,
}

impl<'a> SortedWalk<'a> {
    pub(crate) fn new(fs: &'a dyn FsRead, start: InodeNumber) -> Self {
        Self {
            fs,
            filter: None,
            start: Some(start),
            enter: None,
            path: Vec::new(),
            levels: Vec::new(),
            visited: HashSet::new(),
        }
    }

    /// Leaves out the names that `name` says no to, and what is no directory if so wanted.
    pub(crate) fn keep(&mut self, name: impl Fn(&[u8]) -> bool + 'a, directories_only: bool) {
        self.filter = Some(Filter {
            name: Box::new(name),
            directories_only,
        });
    }

    /// Leaves out what is below the directory that came last.
    pub(crate) fn skip_dir(&mut self) {
        self.enter = None;
    }

    fn descend(&mut self, dir: InodeNumber) -> vfs::Result<()> {
        let mut children = children(self.fs, dir).map_err(|e| e.in_path(shown(&self.path)))?;
        if let Some(filter) = &self.filter {
            children.retain(|child| (filter.name)(&child.name));
        }
        will_need(self.fs, &children);
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| filter.directories_only)
        {
            // What can't be read stays: its error is to be told.
            let is_dir = |inode| self.fs.metadata(inode).map_or(true, |m| m.is_dir());
            children.retain(|child| is_dir(child.inode));
        }
        self.levels.push(Level {
            path_len: self.path.len(),
            children: children.into_iter(),
        });
        Ok(())
    }

    /// What the walk's path names.
    fn entry(&mut self, inode: InodeNumber, last: bool) -> vfs::Result<Entry> {
        let path = self.path.clone();
        let metadata = self
            .fs
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
        Ok(Entry {
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
    type Item = vfs::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
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
}
