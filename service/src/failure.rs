//! The failure of a job, in a form that can cross a process boundary.

use diskfs_block::with_reasons;
use diskfs_disk::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// The failure of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The message for the user: what the command line prints for the same error.
    pub message: String,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FailureKind {
    /// The host failed to read or write.
    Io,
    /// The data violates the specification of its format.
    Corrupt,
    /// The data needs a feature that diskfs does not support.
    Unsupported,
    /// No such image, volume or file.
    NotFound,
    /// Something with that name exists already.
    Exists,
    /// Something that must be written is read-only.
    ReadOnly,
    /// No space is left.
    NoSpace,
    /// The image is in use by another process.
    Locked,
    /// Permissions or a policy deny the access.
    Denied,
    /// The request is invalid or ambiguous.
    Invalid,
    /// The caller has cancelled the work.
    Cancelled,
    /// The deadline of the work is over.
    DeadlineExceeded,
    /// The server is stopping, or cannot take the work.
    Unavailable,
    /// An error of diskfs itself.
    Internal,
}

impl FailureKind {
    /// Returns the name of the kind in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::ReadOnly => "read_only",
            Self::NoSpace => "no_space",
            Self::Locked => "locked",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Cancelled => "cancelled",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }
}

impl From<ErrorKind> for FailureKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Io => Self::Io,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Exists => Self::Exists,
            ErrorKind::ReadOnly => Self::ReadOnly,
            ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::Locked => Self::Locked,
            ErrorKind::Denied => Self::Denied,
            ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::Ambiguous
            | ErrorKind::Invalid => Self::Invalid,
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Internal,
        }
    }
}

impl Failure {
    /// Creates a failure.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Creates the failure of an invalid request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.kind().into(), with_reasons(&error))
    }
}
