//! The gate for files that an image names.
//!
//! A backing file or an external data file is a path inside a file that somebody else wrote. It is
//! opened only when the gate lets it through: a plain path (no `json:`, no `nbd:`) to a regular
//! file below the image's own directory, of the image's own owner, or below a directory that the
//! user added. It is opened for writing only when the user allowed it by name.

mod beneath;
mod request;

use std::path::{Path, PathBuf};

use diskfs_block::{File, Result};
use rustix::fs::OFlags;

use request::Request;

/// Which files an image may name.
///
/// By default those below the image's own directory, symbolic links resolved, that belong to the
/// image's own owner and are no dot files. They are only read: an external data file is written to
/// when [`allow`](Self::allow) or [`allow_data_file`](Self::allow_data_file) covers it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gate {
    policy: Policy,
    /// Directories whose files an image may name, and have its data written to.
    allowed: Vec<PathBuf>,
    /// Files that an image may name as its data file.
    data_files: Vec<PathBuf>,
    /// Files that may be read, whatever they are called.
    files: Vec<PathBuf>,
}

/// What an image may name when nobody has said anything about that image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// No file at all.
    Closed,
    /// What is below the image's own directory and belongs to the image's own owner. As each
    /// image of a chain is held to this, all files of a chain have one owner.
    #[default]
    Beside,
    /// What is below one of these directories, whoever owns it. What is beside the image is not
    /// opened: for a directory that holds the disks of many tenants.
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
    /// Lets nothing through: an image that names another file is refused.
    #[must_use]
    pub fn closed() -> Self {
        Self::from(Policy::Closed)
    }

    /// Also lets through what is below `dir`, whoever owns it, and for writing, too, when it is an
    /// image's external data file.
    #[must_use]
    pub fn allow(mut self, dir: impl Into<PathBuf>) -> Self {
        self.allowed.push(dir.into());
        self
    }

    /// Also lets an image have this external data file, to read and to write.
    #[must_use]
    pub fn allow_data_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.data_files.push(file.into());
        self
    }

    /// Also lets an image read this one file.
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

    /// Opens the file that `image` names as `name`.
    pub(crate) fn open(
        &self,
        image: Namer<'_>,
        name: &[u8],
        what: NamedFor,
        access: Access,
    ) -> Result<File> {
        let gate = self;
        let request = Request {
            gate,
            image,
            name,
            what,
            access,
        };
        request.open()
    }
}

/// An image that names a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Namer<'a> {
    pub(crate) path: &'a Path,
    /// Its user; `None` for what is no file of the host.
    pub(crate) owner: Option<u32>,
}

/// What an image names a file as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedFor {
    Backing,
    Data,
}

impl NamedFor {
    const fn noun(self) -> &'static str {
        match self {
            Self::Backing => "backing file",
            Self::Data => "data file",
        }
    }
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
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
