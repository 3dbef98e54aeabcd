//! The error type of the block layer.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// [`std::result::Result`] with the block layer's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The kind of a failure: a small and stable set for callers to branch on. Exit codes, errno values
/// and the fallback to another driver follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The host failed to read or write; a retry may help.
    Io,
    /// The bytes contradict their format's specification.
    Corrupt,
    /// The bytes look valid, but need a feature that this driver does not have.
    Unsupported,
    /// The file, snapshot, partition or other object does not exist.
    NotFound,
    /// The object exists already.
    Exists,
    /// A write to something that was opened read-only.
    ReadOnly,
    /// No space left on the device or file below.
    NoSpace,
    /// The range does not lie within the device.
    OutOfBounds,
    /// The image is in use by another process.
    Locked,
    /// The host or a policy (the gate) denies access.
    Denied,
    /// The caller's request is invalid.
    Invalid,
    /// The caller asked to stop.
    Cancelled,
}

/// Turns the answer of a progress callback into a result.
///
/// # Errors
/// [`ErrorKind::Cancelled`] for [`ControlFlow::Break`].
pub fn check_cancelled(answer: ControlFlow<()>) -> Result<()> {
    match answer {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled, "cancelled")),
    }
}

/// An error of the block layer: what failed, where, and what to do about it.
///
/// Displayed as one line: file, reason, byte, next step. The line does not repeat the source, if
/// any.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    reason: Cow<'static, str>,
    path: Option<PathBuf>,
    offset: Option<u64>,
    hint: Option<Cow<'static, str>>,
    source: Option<Source>,
}

impl Error {
    /// Creates an error without a place. The reason starts in lower case and ends without a full
    /// stop.
    pub fn new(kind: ErrorKind, reason: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            reason: reason.into(),
            path: None,
            offset: None,
            hint: None,
            source: None,
        }))
    }

    /// Creates an [`ErrorKind::Corrupt`] error.
    pub fn corrupt(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, reason)
    }

    /// Creates an [`ErrorKind::Unsupported`] error.
    pub fn unsupported(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, reason)
    }

    /// Creates an [`ErrorKind::Invalid`] error.
    pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, reason)
    }

    /// Sets the byte of the device at which the error occurred. The innermost place is kept: a
    /// second call has no effect.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Sets the file in which the error occurred. The innermost file is kept: a second call has no
    /// effect.
    #[must_use]
    pub fn in_file(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// Sets what the user can do about the error, as a phrase: `use --force-share to read it
    /// anyway`.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint.get_or_insert(hint.into());
        self
    }

    /// Sets the cause of this error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what failed, without place, next step or source.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the byte of the device (or of [`path`](Self::path)) at which the error occurred.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the file in which the error occurred.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns what the user can do about the error.
    pub fn next_step(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        f.write_str(&self.0.reason)?;
        if let Some(offset) = self.0.offset {
            write!(f, " (at byte {offset:#x})")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("reason", &self.0.reason)
            .field("path", &self.0.path)
            .field("offset", &self.0.offset)
            .field("source", &self.0.source)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        // An error of this crate that went through `std::io` is unwrapped again.
        let e = match e.downcast::<Self>() {
            Ok(own) => return own,
            Err(e) => e,
        };
        let kind = match e.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        Self::new(kind, host_reason(&e))
    }
}

/// The reason of errors of a full filesystem of the host, or of a user's full quota on it. It is
/// not to be confused with a full filesystem of a guest.
pub const NO_SPACE_ON_HOST: &str = "no space left on the host";

/// Returns the host's error message in our style: lower case, and without the number that Rust adds
/// (` (os error 2)`).
pub fn host_reason(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::StorageFull => return NO_SPACE_ON_HOST.to_owned(),
        io::ErrorKind::QuotaExceeded => return format!("{NO_SPACE_ON_HOST} within the disk quota"),
        _ => {}
    }
    let text = e.to_string();
    let text = text.split(" (os error ").next().unwrap_or(&text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::from("input/output error"),
    }
}

/// Formats an error and its chain of causes on one line. A cause whose text is in the line already
/// is not repeated.
pub fn with_reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(source) = below {
        let reason = match source.downcast_ref::<io::Error>() {
            Some(host) => host_reason(host),
            None => source.to_string(),
        };
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        below = source.source();
    }
    text
}

impl From<rustix::io::Errno> for Error {
    fn from(e: rustix::io::Errno) -> Self {
        io::Error::from(e).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_host_is_named() {
        let full = rustix::io::Errno::NOSPC;
        let e = Error::from(full).in_file("disk.raw");
        assert_eq!(e.to_string(), "disk.raw: no space left on the host");
        assert!(host_reason(&rustix::io::Errno::DQUOT.into()).starts_with(NO_SPACE_ON_HOST));
    }

    #[test]
    fn says_what_where_and_what_to_do() {
        let e = Error::corrupt("L2 entry points past the end of the file")
            .at(0x40000)
            .at(1)
            .in_file("disk.qcow2")
            .with_hint("run `qemu-img check disk.qcow2`");
        assert_eq!(
            e.to_string(),
            "disk.qcow2: L2 entry points past the end of the file (at byte 0x40000); \
             run `qemu-img check disk.qcow2`"
        );
        assert_eq!(e.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn an_error_that_went_through_the_standard_library_is_the_same() {
        let e = io::Error::other(Error::corrupt("L2 entry").at(8).in_file("disk.qcow2"));
        let e = Error::from(e).in_file("new.qcow2");
        assert_eq!(e.kind(), ErrorKind::Corrupt);
        assert_eq!(e.to_string(), "disk.qcow2: L2 entry (at byte 0x8)");
    }

    #[test]
    fn host_errors_keep_their_kind() {
        let e = Error::from(io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(e.kind(), ErrorKind::Denied);
        assert_eq!(
            Error::from(rustix::io::Errno::NOSPC).kind(),
            ErrorKind::NoSpace
        );
    }
}
