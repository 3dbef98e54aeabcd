//! The map from owners on the host to owners in a new filesystem.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use diskfs::vfs::{FileType, FsWrite, SetMetadata, walk};
use diskfs::{Error, ErrorKind, Result};

/// The largest map that is read.
const MAP_MAX_BYTES: u64 = 1 << 20;
/// The directory that creating the filesystem adds.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The ranges of user and group IDs, in the order of the file: the first that matches counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnerMap {
    users: Vec<Range>,
    groups: Vec<Range>,
}

/// A range of IDs of the host, and the first ID that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: u32,
    to: u32,
    count: u32,
}

impl Range {
    fn map(&self, id: u32) -> Option<u32> {
        let offset = id.checked_sub(self.from)?;
        (offset < self.count).then(|| self.to.saturating_add(offset))
    }
}

fn map(ranges: &[Range], id: u32) -> Option<u32> {
    ranges.iter().find_map(|range| range.map(id))
}

impl OwnerMap {
    /// Reads a map from a file of the host.
    ///
    /// # Errors
    /// `Invalid` for a line that is not `UID[:GID] UID[:GID] [COUNT]`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let in_file = |e| Error::from(e).in_file(path);
        let len = fs::metadata(path).map_err(in_file)?.len();
        if len > MAP_MAX_BYTES {
            let reason = format!("the map has {len} bytes, at most {MAP_MAX_BYTES}");
            return Err(Error::new(ErrorKind::Invalid, reason).in_file(path));
        }
        let text = fs::read_to_string(path).map_err(in_file)?;
        Self::parse(&text).map_err(|reason| Error::new(ErrorKind::Invalid, reason).in_file(path))
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut parsed = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if !line.trim().is_empty() && parsed.add(line).is_none() {
                return Err(format!(
                    "invalid line {}: expected HOST-UID[:GID] GUEST-UID[:GID] [COUNT]",
                    number + 1
                ));
            }
        }
        Ok(parsed)
    }

    /// Adds a line; `None` if it is invalid.
    fn add(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        let (from, to) = (owner(words.next()?)?, owner(words.next()?)?);
        let count: u32 = words.next().map_or(Some(1), |word| word.parse().ok())?;
        let is_valid = words.next().is_none() && count > 0 && from.1.is_some() == to.1.is_some();
        let range = |from: u32, to: u32| {
            let last = count.checked_sub(1)?;
            let range = Range { from, to, count };
            (from.checked_add(last).is_some() && to.checked_add(last).is_some()).then_some(range)
        };
        self.users.push(range(from.0, to.0)?);
        // Without groups, a line applies to users and groups alike.
        let groups = (from.1.unwrap_or(from.0), to.1.unwrap_or(to.0));
        self.groups.push(range(groups.0, groups.1)?);
        is_valid.then_some(())
    }

    /// Fails if a file below a directory of the host has an owner that the map lacks.
    pub(super) fn check(&self, directory: &Path) -> Result<()> {
        let mut directories = vec![directory.to_owned()];
        self.check_file(directory)?;
        while let Some(directory) = directories.pop() {
            let in_directory = |e| Error::from(e).in_file(&directory);
            for entry in fs::read_dir(&directory).map_err(in_directory)? {
                let path = entry.map_err(in_directory)?.path();
                if let Some(inner) = self.check_file(&path)? {
                    directories.push(inner);
                }
            }
        }
        Ok(())
    }

    /// Checks the owner of a file, and returns its path if it is a directory.
    fn check_file(&self, path: &Path) -> Result<Option<PathBuf>> {
        let metadata = fs::symlink_metadata(path).map_err(|e| Error::from(e).in_file(path))?;
        let ids = [
            ("user", metadata.uid(), &self.users),
            ("group", metadata.gid(), &self.groups),
        ];
        for (what, id, ranges) in ids {
            if map(ranges, id).is_none() {
                let reason = format!("{what} {id} is not in the owner map");
                let error = Error::new(ErrorKind::Invalid, reason).in_file(path);
                return Err(error.with_hint("add a line for it"));
            }
        }
        Ok(metadata.is_dir().then(|| path.to_owned()))
    }

    /// Changes the owners of all files of a filesystem.
    pub(super) fn apply(&self, fs: &dyn FsWrite) -> Result<()> {
        // A file with several names is walked several times.
        let mut files = BTreeMap::new();
        for entry in walk(fs, fs.root()) {
            let entry = entry?;
            if entry.path != LOST_AND_FOUND {
                files.insert(entry.inode, entry.metadata);
            }
        }
        for (inode, metadata) in files {
            let is_symlink = metadata.file_type == FileType::Symlink;
            let change = SetMetadata {
                uid: map(&self.users, metadata.uid),
                gid: map(&self.groups, metadata.gid),
                // A change of the owner would clear the set-user-ID bit.
                permissions: (!is_symlink).then_some(metadata.permissions),
                ..SetMetadata::default()
            };
            fs.set_metadata(inode, &change)?;
        }
        Ok(())
    }
}

/// Parses `UID` or `UID:GID`.
fn owner(text: &str) -> Option<(u32, Option<u32>)> {
    match text.split_once(':') {
        Some((uid, gid)) => Some((uid.parse().ok()?, Some(gid.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_map_ids_and_ranges() {
        let text = "# comment\n1000:100 0:5\n100000 0 65536 # a user namespace\n\n";
        let parsed = OwnerMap::parse(text).unwrap();
        assert_eq!(map(&parsed.users, 1000), Some(0));
        assert_eq!(map(&parsed.groups, 100), Some(5));
        assert_eq!(map(&parsed.groups, 1000), None);
        assert_eq!(map(&parsed.users, 100_033), Some(33));
        assert_eq!(map(&parsed.groups, 165_535), Some(65_535));
        assert_eq!(map(&parsed.users, 165_536), None);
        for invalid in [
            "1",
            "1 2 0",
            "1:2 3",
            "1 2 3 4",
            "x 1",
            "1 4294967295 2",
            "-1 0",
        ] {
            assert!(OwnerMap::parse(invalid).is_err(), "{invalid}");
        }
    }
}
