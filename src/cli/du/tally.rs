//! Sums over directories, out of a walk that comes to a directory before what is in it.

use std::collections::HashSet;

use diskfs::vfs::{FileType, InodeNumber, Metadata};
use diskfs::{Result, SortedEntry};

/// How much room files take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) allocated_bytes: u64,
    /// Of regular files and symlinks: what the size of anything else means, each filesystem has its
    /// own idea of.
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

    /// An image may claim any sizes: sums stay at the largest number.
    fn plus(self, other: Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.saturating_add(other.allocated_bytes),
            size_bytes: self.size_bytes.saturating_add(other.size_bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// A file, or a directory with what is in it.
#[derive(Debug)]
pub(super) struct Counted {
    /// From where the walk began.
    pub(super) path: Vec<u8>,
    pub(super) depth: usize,
    pub(super) file_type: FileType,
    pub(super) space: Space,
}

impl Counted {
    pub(super) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }
}

/// Which files count where they are come by first, and not again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Once {
    Nothing,
    /// Those with several names.
    Linked,
    Everything,
}

/// Whether what is below a directory is a part of what it is shown with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subdirectories {
    Included,
    Apart,
}

/// The sums, while a walk goes on.
#[derive(Debug)]
pub(super) struct Tally {
    once: Once,
    subdirectories: Subdirectories,
    /// The filesystem by number, and the file.
    seen: HashSet<(usize, InodeNumber)>,
    filesystem: usize,
    /// The directories that the walk is in, outermost first.
    open: Vec<Open>,
    total: Space,
}

#[derive(Debug)]
struct Open {
    counted: Counted,
    /// Itself and what is in it.
    own: Space,
}

impl Tally {
    pub(super) fn new(once: Once, subdirectories: Subdirectories) -> Self {
        Self {
            once,
            subdirectories,
            seen: HashSet::new(),
            filesystem: 0,
            open: Vec::new(),
            total: Space::default(),
        }
    }

    /// Says that a walk begins, in the filesystem of that number.
    pub(super) fn begin(&mut self, filesystem: usize) {
        self.filesystem = filesystem;
        self.open.clear();
    }

    /// Of all walks.
    pub(super) fn total(&self) -> Space {
        self.total
    }

    /// Takes the next file of the walk, after [`close_to`](Self::close_to) its depth; `false` for one
    /// that was counted before.
    pub(super) fn add(
        &mut self,
        entry: SortedEntry,
        tell: &mut impl FnMut(&Counted) -> Result<()>,
    ) -> Result<bool> {
        let metadata = &entry.metadata;
        if self.counts_once(metadata) && !self.seen.insert((self.filesystem, metadata.inode)) {
            return Ok(false);
        }
        let space = Space::of(metadata);
        self.total = self.total.plus(space);
        let counted = Counted {
            depth: entry.depth,
            file_type: metadata.file_type,
            space,
            path: entry.path,
        };
        if counted.is_dir() {
            self.open.push(Open {
                counted,
                own: space,
            });
            return Ok(true);
        }
        if let Some(dir) = self.open.last_mut() {
            dir.own = dir.own.plus(space);
            dir.counted.space = dir.counted.space.plus(space);
        }
        tell(&counted)?;
        Ok(true)
    }

    fn counts_once(&self, metadata: &Metadata) -> bool {
        match self.once {
            Once::Nothing => false,
            Once::Linked => !metadata.is_dir() && metadata.links > 1,
            Once::Everything => true,
        }
    }

    /// Ends the directories that lie as deep as `depth` or deeper: the walk has left them.
    pub(super) fn close_to(
        &mut self,
        depth: usize,
        tell: &mut impl FnMut(&Counted) -> Result<()>,
    ) -> Result<()> {
        while let Some(mut dir) = self.open.pop_if(|dir| dir.counted.depth >= depth) {
            if let Some(above) = self.open.last_mut() {
                above.counted.space = above.counted.space.plus(dir.counted.space);
            }
            if self.subdirectories == Subdirectories::Apart {
                dir.counted.space = dir.own;
            }
            tell(&dir.counted)?;
        }
        Ok(())
    }
}
