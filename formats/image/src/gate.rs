//! The gate: the policy for files that an image names.
//!
//! A backing file or an external data file is a path in an untrusted file. The gate lets it be
//! opened only if it is a plain path (no `json:`, no `nbd:`) to a regular file that is below the
//! image's own directory and belongs to the image's owner, or that is below a directory that the
//! user added. It is opened for writing only if the user allowed it by name.

mod beneath;
mod by_ids;
mod request;

use std::path::{Path, PathBuf};

use diskfs_block::{File, Result};
use diskfs_vdi::DiskIds;
use rustix::fs::OFlags;

use request::Request;

/// The policy for the files that an image may name.
///
/// By default these are the files below the image's own directory, with symbolic links resolved,
/// that belong to the image's owner and are not dot files. They are only read: an external data
/// file is written only if [`allow`](Self::allow) or [`allow_data_file`](Self::allow_data_file)
/// covers it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gate {
    policy: Policy,
    /// The directories whose files an image may name and use as data files.
    allowed: Vec<PathBuf>,
    /// The files that an image may use as its data file.
    data_files: Vec<PathBuf>,
    /// The files that may be read, whatever their name.
    files: Vec<PathBuf>,
}

/// The default policy for an image, without further permissions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// No file may be named.
    Closed,
    /// The files below the image's own directory that belong to the image's owner. Since this
    /// applies to each image of a chain, all files of a chain have the same owner.
    #[default]
    Beside,
    /// The files below one of these directories, whoever owns them. Files in the image's own
    /// directory are not opened. This is for a directory with the disks of many tenants.
    Below(Vec<PathBuf>),
}

impl From<Policy> for Gate {
    fn from(policy: Policy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }
}

impl Gate {
    /// Creates a gate that refuses every file that an image names.
    #[must_use]
    pub fn closed() -> Self {
        Self::from(Policy::Closed)
    }

    /// Allows files below `dir`, too, whoever owns them. External data files there may be written
    /// as well.
    #[must_use]
    pub fn allow(mut self, dir: impl Into<PathBuf>) -> Self {
        self.allowed.push(dir.into());
        self
    }

    /// Allows this external data file, too, for reading and writing.
    #[must_use]
    pub fn allow_data_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.data_files.push(file.into());
        self
    }

    /// Allows reading this file, too.
    #[must_use]
    pub fn allow_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.push(file.into());
        self
    }

    const fn is_closed(&self) -> bool {
        matches!(self.policy, Policy::Closed)
            && self.allowed.is_empty()
            && self.data_files.is_empty()
            && self.files.is_empty()
    }

    /// Opens a file that an image names.
    pub(crate) fn open(&self, named: &NamedFile<'_>) -> Result<File> {
        let request = Request {
            gate: self,
            image: Namer {
                path: named.image,
                owner: named.owner,
            },
            name: named.name,
            what: named.named_for,
            access: named.access,
        };
        match named.named_for {
            NamedFor::ParentByIds => by_ids::open(&request),
            _ => request.open(),
        }
    }
}

/// A file that an image names.
#[derive(Debug, Clone, Copy)]
pub struct NamedFile<'a> {
    /// The path by which the image was opened.
    pub image: &'a Path,
    /// The user id of the image's owner; `None` if the image is not a file of the host.
    pub owner: Option<u32>,
    /// The name, as it stands in the image.
    pub name: &'a [u8],
    /// The purpose for which the image needs the file.
    pub named_for: NamedFor,
    /// The access that the image needs.
    pub access: Access,
}

/// An image that names a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Namer<'a> {
    pub(crate) path: &'a Path,
    /// The user id of the owner; `None` if the image is not a file of the host.
    pub(crate) owner: Option<u32>,
}

impl<'a> Namer<'a> {
    /// Returns a file that the image names.
    pub(crate) fn file(self, name: &'a [u8], named_for: NamedFor, access: Access) -> NamedFile<'a> {
        NamedFile {
            image: self.path,
            owner: self.owner,
            name,
            named_for,
            access,
        }
    }
}

/// The purpose for which an image names a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedFor {
    /// The backing file, which is only read.
    Backing,
    /// The external data file.
    Data,
    /// The parent of a differencing disk (VHD, VHDX, VMDK), which is only read.
    Parent,
    /// The parent of a differencing disk of VirtualBox (VDI), which is only read. It is named by its
    /// identifiers: the name is the 32 bytes of `uuidLinkage` and `uuidParentModify`.
    ParentByIds,
    /// A file with a part of the disk (VMDK), which is only read.
    Extent,
    /// A blob of an OCI image layout, which is only read.
    Blob,
}

impl NamedFor {
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Backing => "backing file",
            Self::Data => "data file",
            Self::Parent | Self::ParentByIds => "parent",
            Self::Extent => "extent file",
            Self::Blob => "blob",
        }
    }

    /// Returns a name for messages.
    pub(crate) fn shown(self, name: &[u8]) -> String {
        let ids = DiskIds::from_bytes(name).filter(|_| self == Self::ParentByIds);
        match ids {
            Some(ids) => ids.id.to_string(),
            None => String::from_utf8_lossy(name).escape_debug().to_string(),
        }
    }

    /// Returns the way to change the name in the image.
    const fn rename_hint(self) -> &'static str {
        match self {
            Self::Backing | Self::Data => "change the name in the image with `qemu-img rebase -u`",
            Self::Parent | Self::ParentByIds => {
                "merge the image with its parent by the program that made them"
            }
            Self::Extent => "change the name in the image's descriptor",
            Self::Blob => "copy the layout again",
        }
    }
}

/// The access mode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    ReadWrite,
}

impl Access {
    const fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::ReadWrite => OFlags::RDWR,
        }
    }
}
