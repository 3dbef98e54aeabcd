//! Resolution of the parents of a member, within the tree that is being planned.

use diskfs_vfs::{Error, ErrorKind, Result, Timestamp};

use super::inode::{Body, Dentry, Directory, Id, Inode};
use super::plan::{Plan, ROOT};

/// The limit on symlinks in one path, as in Linux.
const MAX_SYMLINKS: u32 = 40;

/// The limit on the depth of a directory: code that removes directories is recursive.
const MAX_DEPTH: u16 = 1024;

/// The treatment of missing directories in a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Missing {
    /// They are created, with this time.
    Create(Timestamp),
    /// The path is not found.
    Fail,
}

impl Plan {
    /// Returns the directory at `path`. Symlinks are followed within the tree: `..` of the root is
    /// the root, and absolute targets start there.
    pub(super) fn directory_at(&mut self, path: &[u8], missing: Missing) -> Result<Id> {
        if let Some((last, directory)) = &self.last_directory
            && last == path
        {
            return Ok(*directory);
        }
        let directory = self.walk(path, missing)?;
        self.last_directory = Some((path.to_vec(), directory));
        Ok(directory)
    }

    fn walk(&mut self, path: &[u8], missing: Missing) -> Result<Id> {
        let mut rest = path.to_vec();
        let mut start = 0;
        let mut at = ROOT;
        let mut symlinks = 0_u32;
        while let Some((name, end)) = next_name(&rest, start) {
            start = end;
            self.count_step()?;
            match name {
                b"" | b"." => {}
                b".." => at = self.directory(at).map_or(ROOT, |found| found.parent),
                name => match self.symlink(at, name) {
                    None => at = self.step(at, name, missing, symlinks > 0)?,
                    Some(target) => {
                        symlinks = symlinks.saturating_add(1);
                        if symlinks > MAX_SYMLINKS {
                            return Err(ErrorKind::TooManyLinks.into());
                        }
                        if target.starts_with(b"/") {
                            at = ROOT;
                        }
                        let after = rest.get(start..).unwrap_or_default();
                        rest = [&target, &b"/"[..], after].concat();
                        start = 0;
                    }
                },
            }
        }
        Ok(at)
    }

    /// Returns the target of the symlink with this name.
    fn symlink(&self, directory: Id, name: &[u8]) -> Option<Vec<u8>> {
        let dentry = self.find(directory, name)?;
        match &self.inode(dentry.inode)?.body {
            Body::Symlink(target) => Some(target.to_vec()),
            _ => None,
        }
    }

    /// Returns the directory with this name, which is not a symlink.
    fn step(&mut self, at: Id, name: &[u8], missing: Missing, is_followed: bool) -> Result<Id> {
        let found = self.find(at, name);
        if let Some(found) = found {
            if self.directory(found.inode).is_some() {
                return Ok(found.inode);
            }
            // A directory of this layer replaces a file of a lower one, also if the archive does
            // not contain the directory itself.
            let is_lower = found.layer < self.layer();
            if !is_lower || is_followed || matches!(missing, Missing::Fail) {
                return Err(ErrorKind::NotADirectory.into());
            }
            self.remove(at, name);
        }
        match missing {
            Missing::Fail => Err(ErrorKind::NotFound.into()),
            Missing::Create(modified) => self.make_directory(at, name, modified),
        }
    }

    /// Creates a directory without attributes.
    pub(super) fn make_directory(
        &mut self,
        parent: Id,
        name: &[u8],
        modified: Timestamp,
    ) -> Result<Id> {
        let depth = self.directory(parent).map_or(0, |parent| parent.depth);
        let depth = depth.saturating_add(1);
        if depth > MAX_DEPTH {
            let reason = format!("too many nested directories, at most {MAX_DEPTH}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let inode = self.add(Inode {
            source: None,
            links: 1,
            xattrs: Box::default(),
            body: Body::Directory(Box::new(Directory::new(parent, depth, modified))),
        })?;
        self.insert(parent, name, inode)?;
        Ok(inode)
    }

    /// Returns the entry with this name.
    pub(super) fn find(&self, directory: Id, name: &[u8]) -> Option<Dentry> {
        self.directory(directory)?.entries.get(name).copied()
    }
}

/// Returns the name that starts at a byte of a path, and the start of the next one.
fn next_name(path: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let rest = path.get(start..).filter(|rest| !rest.is_empty())?;
    let name = rest.split(|byte| *byte == b'/').next()?;
    Some((name, start.saturating_add(name.len()).saturating_add(1)))
}
