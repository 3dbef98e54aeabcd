//! The entries of a stage.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs_vfs::FileType;

use super::Part;

/// A file, a directory or another kind of entry, in its changed state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The low 12 bits of `st_mode`.
    pub permissions: u16,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The size in the guest in bytes; 0 for a new entry.
    pub size_bytes: u64,
    /// The extended attributes to set, in addition to existing ones.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// True if the entry replaces whatever the guest has at the path, with everything below it.
    pub is_new: bool,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File(Contents),
    /// A directory, whose entries the stage lists separately.
    Directory,
    /// A symlink with its target.
    Symlink(String),
    /// A device, FIFO or socket of the guest.
    Other(FileType),
}

/// The contents of a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// The unchanged contents in the guest.
    AsBefore,
    /// The given bytes.
    Bytes(Arc<[u8]>),
    /// The contents of a local file.
    Host {
        /// The path of the local file.
        path: PathBuf,
        /// The size of the file when it was examined.
        size_bytes: u64,
    },
    /// A range of an unnamed temporary file.
    Part(Part),
    /// The contents of the file at this path (without symlinks), of which this entry is a hard
    /// link.
    HardLinkTo(String),
    /// The given bytes, followed by zeroes that are allocated on the disk: the file has no holes.
    Allocated {
        /// The first bytes.
        start: Arc<[u8]>,
        /// The size of the file in bytes.
        size_bytes: u64,
    },
}

impl Entry {
    pub(super) fn new(kind: EntryKind, permissions: u16) -> Self {
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

impl EntryKind {
    /// Returns the name of the kind in messages.
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
