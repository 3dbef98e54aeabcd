//! Sums over directories, from a walk that visits a directory before its contents.

use std::collections::HashSet;

use diskfs::vfs::{FileType, InodeNumber, Metadata};
use diskfs::{Result, SortedEntry};

/// The space that files take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) allocated_bytes: u64,
    /// The size of regular files and symlinks. Other types are not counted, since filesystems
    /// define their sizes differently.
    pub(super) size_bytes: u64,
    pub(super) inodes: u64,
}

impl Space {
    fn of(metadata: &Metadata) -> Self {
        let has_size = matches!(metadata.file_type, FileType::Regular | FileType::Symlink);
        Self {
            allocated_bytes: metadata.allocated_bytes,
            size_bytes: if has_size { metadata.size_bytes } else { 0 },
            inodes: 1,
        }
    }

    /// Adds two amounts, with saturation: an image can claim any sizes.
    fn plus(self, other: Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.saturating_add(other.allocated_bytes),
            size_bytes: self.size_bytes.saturating_add(other.size_bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// A file, or a directory with its contents.
#[derive(Debug)]
pub(super) struct UsageEntry {
    /// The path, relative to where the walk began.
    pub(super) path: Vec<u8>,
    pub(super) depth: usize,
    pub(super) file_type: FileType,
    pub(super) space: Space,
}

impl UsageEntry {
    pub(super) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }
}

/// The files that are counted only at their first occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountOnce {
    Nothing,
    /// Files with several names.
    Linked,
    Everything,
}

/// The choice whether the size of a directory includes its subdirectories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subdirectories {
    Included,
    Apart,
}

/// The sums of a walk in progress.
#[derive(Debug)]
pub(super) struct Tally {
    once: CountOnce,
    subdirectories: Subdirectories,
    /// The files that were counted, each with the number of its filesystem.
    seen: HashSet<(usize, InodeNumber)>,
    filesystem: usize,
    /// The directories that contain the current file, outermost first.
    open: Vec<OpenDirectory>,
    total: Space,
}

#[derive(Debug)]
struct OpenDirectory {
    counted: UsageEntry,
    /// The space of the directory itself and of the files directly in it.
    own: Space,
}

impl Tally {
    pub(super) fn new(once: CountOnce, subdirectories: Subdirectories) -> Self {
        Self {
            once,
            subdirectories,
            seen: HashSet::new(),
            filesystem: 0,
            open: Vec::new(),
            total: Space::default(),
        }
    }

    /// Begins a walk in the filesystem with this number.
    pub(super) fn begin(&mut self, filesystem: usize) {
        self.filesystem = filesystem;
        self.open.clear();
    }

    /// Returns the total of all walks.
    pub(super) fn total(&self) -> Space {
        self.total
    }

    /// Adds the next file of the walk, after [`close_to`](Self::close_to) was called with its
    /// depth. Returns `false` if the file was counted before.
    pub(super) fn add(
        &mut self,
        entry: SortedEntry,
        report: &mut impl FnMut(&UsageEntry) -> Result<()>,
    ) -> Result<bool> {
        let metadata = &entry.metadata;
        if self.counts_once(metadata) && !self.seen.insert((self.filesystem, metadata.inode)) {
            return Ok(false);
        }
        let space = Space::of(metadata);
        self.total = self.total.plus(space);
        let counted = UsageEntry {
            depth: entry.depth,
            file_type: metadata.file_type,
            space,
            path: entry.path,
        };
        if counted.is_dir() {
            self.open.push(OpenDirectory {
                counted,
                own: space,
            });
            return Ok(true);
        }
        if let Some(dir) = self.open.last_mut() {
            dir.own = dir.own.plus(space);
            dir.counted.space = dir.counted.space.plus(space);
        }
        report(&counted)?;
        Ok(true)
    }

    fn counts_once(&self, metadata: &Metadata) -> bool {
        match self.once {
            CountOnce::Nothing => false,
            CountOnce::Linked => !metadata.is_dir() && metadata.links > 1,
            CountOnce::Everything => true,
        }
    }

    /// Closes the directories at `depth` or deeper, which the walk has left.
    pub(super) fn close_to(
        &mut self,
        depth: usize,
        report: &mut impl FnMut(&UsageEntry) -> Result<()>,
    ) -> Result<()> {
        while let Some(mut dir) = self.open.pop_if(|dir| dir.counted.depth >= depth) {
            if let Some(above) = self.open.last_mut() {
                above.counted.space = above.counted.space.plus(dir.counted.space);
            }
            if self.subdirectories == Subdirectories::Apart {
                dir.counted.space = dir.own;
            }
            report(&dir.counted)?;
        }
        Ok(())
    }
}
