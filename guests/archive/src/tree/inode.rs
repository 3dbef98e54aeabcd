//! The inodes of a tree that is being planned.

use std::collections::BTreeMap;

use diskfs_vfs::{FileType, Timestamp};

/// The index of an inode in the plan.
pub(super) type Id = u32;

/// The member of the archive that an inode comes from, in the order in which members are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) layer: u16,
    pub(super) member: u32,
}

/// The size of an extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XattrSize {
    /// The length of the full name in bytes.
    pub name_bytes: u16,
    /// The length of the value in bytes.
    pub value_bytes: u32,
}

/// A file of any type in the plan, without its names.
#[derive(Debug)]
pub(super) struct Inode {
    /// The member with the attributes and contents; `None` for a directory without a member.
    pub(super) source: Option<Source>,
    pub(super) links: u32,
    pub(super) xattrs: Box<[XattrSize]>,
    pub(super) body: Body,
}

/// The data of an inode that depends on its type.
#[derive(Debug)]
pub(super) enum Body {
    /// In a box: most files are not directories, and each has this size.
    Directory(Box<Directory>),
    Regular {
        size_bytes: u64,
        allocated_bytes: u64,
    },
    Symlink(Box<[u8]>),
    Special(FileType),
}

/// The entries of a directory in the plan.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) parent: Id,
    pub(super) depth: u16,
    /// The layer in which the entries of lower layers were removed last.
    pub(super) opaque_in: Option<u16>,
    /// The time of a directory without a member of its own.
    pub(super) modified: Timestamp,
    pub(super) entries: BTreeMap<Box<[u8]>, Dentry>,
}

/// A directory entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dentry {
    pub(super) inode: Id,
    /// The layer that wrote the entry last.
    pub(super) layer: u16,
}

impl Directory {
    pub(super) fn new(parent: Id, depth: u16, modified: Timestamp) -> Self {
        Self {
            parent,
            depth,
            opaque_in: None,
            modified,
            entries: BTreeMap::new(),
        }
    }
}

impl Inode {
    pub(super) fn directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }
}
