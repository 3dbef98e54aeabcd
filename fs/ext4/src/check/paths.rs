//! The paths of directories in findings.

use std::collections::BTreeMap;

use diskfs_vfs::FileType;

use super::finding::Finding;
use crate::directory;
use crate::inode::{Inode, ROOT};
use crate::volume::Volume;

/// The maximum number of levels of a path that is looked for.
const LEVELS_MAX: usize = 64;
/// The maximum number of directory entries that are read for all paths.
const ENTRIES_MAX: usize = 1 << 20;

/// Adds the paths of directories to their findings, as far as intact directories lead to them.
pub(super) fn add(volume: &Volume, findings: &mut [Finding]) {
    let mut search = PathSearch {
        volume,
        paths: BTreeMap::new(),
        entries_left: ENTRIES_MAX,
    };
    for finding in findings {
        if let Some(inode) = finding.place.inode {
            finding.place.path = search.path(inode, LEVELS_MAX);
        }
    }
}

struct PathSearch<'a> {
    volume: &'a Volume,
    paths: BTreeMap<u32, Option<Vec<u8>>>,
    entries_left: usize,
}

impl PathSearch<'_> {
    /// Returns the path of a directory. The number of levels bounds the recursion.
    fn path(&mut self, inode: u32, levels: usize) -> Option<Vec<u8>> {
        if inode == ROOT {
            return Some(b"/".to_vec());
        }
        if let Some(path) = self.paths.get(&inode) {
            return path.clone();
        }
        self.paths.insert(inode, None);
        let path = self.look(inode, levels);
        self.paths.insert(inode, path.clone());
        path
    }

    fn look(&mut self, inode: u32, levels: usize) -> Option<Vec<u8>> {
        let directory = self.directory(inode)?;
        let parent = directory::lookup(self.volume, &directory, b"..").ok()??;
        let mut path = self.path(parent, levels.checked_sub(1)?)?;
        let parent = self.directory(parent)?;
        let name = self.name(parent, inode)?;
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend(name);
        Some(path)
    }

    fn directory(&self, inode: u32) -> Option<std::sync::Arc<Inode>> {
        let found = self.volume.inode(inode).ok()??;
        found.is(FileType::Directory).then_some(found)
    }

    /// Returns the name of a directory in its parent.
    fn name(&mut self, parent: std::sync::Arc<Inode>, inode: u32) -> Option<Vec<u8>> {
        let entries = directory::entries(self.volume, parent, 0).ok()?;
        for entry in entries {
            self.entries_left = self.entries_left.checked_sub(1)?;
            let entry = entry.ok()?;
            let is_dot = entry.name == b"." || entry.name == b"..";
            if entry.inode.0 == u64::from(inode) && !is_dot {
                return Some(entry.name);
            }
        }
        None
    }
}
