//! What there is at a path.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs_vfs::FileType;

use super::Part;

/// A file, directory or the like, as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The low 12 bits of `st_mode`.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// How long it is in the guest; 0 for what is new.
    pub size_bytes: u64,
    /// The extended attributes that are set besides those that it has.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Whether it takes the place of what the guest has there, if anything, with all below.
    pub is_new: bool,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File(Contents),
    /// A directory.
    Directory,
    /// A symlink with its target.
    Symlink(String),
    /// A device, FIFO or socket of the guest.
    Other(FileType),
}

/// What a regular file has in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// What the guest has.
    AsBefore,
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// What a file of this machine has.
    Host {
        /// Where it is.
        path: PathBuf,
        /// How long it was.
        size_bytes: u64,
    },
    /// A range of a file of this machine that has no name.
    Part(Part),
    /// What a file at this path has, without symlinks on the way: it is one more name of that one.
    SameAs(String),
    /// These bytes, and zeroes behind them for which there is room on the disk: no hole is in it.
    Allocated {
        /// What it begins with.
        start: Arc<[u8]>,
        /// How long it is.
        size_bytes: u64,
    },
}

impl Entry {
    pub(super) fn new(kind: Kind, permissions: u16) -> Self {
        Self {
            kind,
            permissions,
            uid: 0,
            gid: 0,
            size_bytes: 0,
            xattrs: BTreeMap::new(),
            is_new: true,
        }
    }
}

impl Kind {
    /// What people call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Directory => "directory",
            Self::Symlink(_) => "symlink",
            Self::Other(FileType::CharacterDevice) => "character device",
            Self::Other(FileType::BlockDevice) => "block device",
            Self::Other(FileType::Fifo) => "FIFO",
            Self::Other(_) => "socket",
        }
    }
}
