//! The messages between a worker and its parent, encoded by postcard.

use std::path::PathBuf;

use diskfs_block::{Error, ErrorKind};
use diskfs_image::{Access, NamedFor};
use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::profile::{Confined, Strictness};

/// The only message to a zygote. The connection of the new worker comes with it. The answer is the
/// process id, or the negative number of an error: 4 bytes, little-endian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ForkWorker;

/// A message from the parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// Confine yourself like this; the first message. The standard error comes with it.
    Setup {
        limits: Limits,
        strictness: Strictness,
    },
    /// Do the job in the payload.
    Job,
    /// The answer to a request for a file. Its descriptor comes with the message.
    File(Result<PathBuf, FileError>),
    /// The answer to a request for overlays.
    Overlays(Vec<String>),
    /// Stop the job.
    Cancel,
    /// The payload answers another request. A descriptor may come with it.
    Other { has_descriptor: bool },
}

/// A message from a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToParent {
    /// The worker is confined and waits for its job.
    Ready(Confined),
    /// The worker cannot confine itself.
    Refused(String),
    /// Open an image.
    Open { path: PathBuf, access: FileAccess },
    /// Open the file that an open image names.
    OpenNamed {
        image: PathBuf,
        name: Vec<u8>,
        named_for: FilePurpose,
        access: FileAccess,
    },
    /// List the overlays beside an open image.
    OverlaysOf { image: PathBuf },
    /// The payload is another request.
    Other,
    /// The payload reports progress.
    Progress,
    /// The payload is a line for the log.
    Log { level: Level, target: String },
    /// The payload is the answer; the last message.
    Answer,
    /// The job panicked, and the payload says why; the last message.
    Panicked,
}

/// The level of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// A failure.
    Error,
    /// Something that the user should know.
    Warn,
    /// A step of the work.
    Info,
    /// A detail for developers.
    Debug,
}

/// [`Access`] on the wire.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum FileAccess {
    Read,
    ReadWrite,
}

impl From<Access> for FileAccess {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::ReadWrite => Self::ReadWrite,
        }
    }
}

impl From<FileAccess> for Access {
    fn from(access: FileAccess) -> Self {
        match access {
            FileAccess::Read => Self::Read,
            FileAccess::ReadWrite => Self::ReadWrite,
        }
    }
}

/// [`NamedFor`] on the wire.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum FilePurpose {
    Backing,
    Data,
    Parent,
    ParentByIds,
    Extent,
    Blob,
}

impl From<NamedFor> for FilePurpose {
    fn from(named_for: NamedFor) -> Self {
        match named_for {
            NamedFor::Backing => Self::Backing,
            NamedFor::Data => Self::Data,
            NamedFor::Parent => Self::Parent,
            NamedFor::ParentByIds => Self::ParentByIds,
            NamedFor::Extent => Self::Extent,
            NamedFor::Blob => Self::Blob,
        }
    }
}

impl From<FilePurpose> for NamedFor {
    fn from(named_for: FilePurpose) -> Self {
        match named_for {
            FilePurpose::Backing => Self::Backing,
            FilePurpose::Data => Self::Data,
            FilePurpose::Parent => Self::Parent,
            FilePurpose::ParentByIds => Self::ParentByIds,
            FilePurpose::Extent => Self::Extent,
            FilePurpose::Blob => Self::Blob,
        }
    }
}

/// The error of a file that was not opened, on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileError {
    kind: String,
    reason: String,
    path: Option<PathBuf>,
    hint: Option<String>,
}

/// The kinds of errors that opening a file has, with their names on the wire.
const KINDS: [(ErrorKind, &str); 12] = [
    (ErrorKind::Io, "io"),
    (ErrorKind::Corrupt, "corrupt"),
    (ErrorKind::Unsupported, "unsupported"),
    (ErrorKind::NotFound, "not-found"),
    (ErrorKind::Exists, "exists"),
    (ErrorKind::ReadOnly, "read-only"),
    (ErrorKind::NoSpace, "no-space"),
    (ErrorKind::OutOfBounds, "out-of-bounds"),
    (ErrorKind::Locked, "locked"),
    (ErrorKind::Denied, "denied"),
    (ErrorKind::Invalid, "invalid"),
    (ErrorKind::Cancelled, "cancelled"),
];

impl From<Error> for FileError {
    fn from(error: Error) -> Self {
        let kind = KINDS.iter().find(|(kind, _)| *kind == error.kind());
        Self {
            kind: kind.map_or("io", |(_, name)| name).to_owned(),
            reason: error.reason().to_owned(),
            path: error.path().map(Into::into),
            hint: error.next_step().map(Into::into),
        }
    }
}

impl From<FileError> for Error {
    fn from(wire: FileError) -> Self {
        let kind = KINDS.iter().find(|(_, name)| *name == wire.kind);
        let mut error = Self::new(kind.map_or(ErrorKind::Io, |(kind, _)| *kind), wire.reason);
        if let Some(path) = wire.path {
            error = error.in_file(path);
        }
        match wire.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}
