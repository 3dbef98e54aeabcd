//! The error type of the filesystem layer.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use crate::InodeNumber;
use crate::join::join;

/// [`std::result::Result`] with the filesystem layer's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The kind of an error: a small and stable set, for callers to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device below failed.
    Io,
    /// The structures on the device violate the filesystem's specification.
    Corrupt,
    /// A feature is needed that this driver does not support.
    Unsupported,
    /// No such file.
    NotFound,
    /// A file with that name exists already.
    Exists,
    /// A component of a path is not a directory.
    NotADirectory,
    /// A directory where a regular file is required.
    IsADirectory,
    /// The directory is not empty.
    NotEmpty,
    /// Too many symlinks in a path.
    TooManyLinks,
    /// A name is longer than the filesystem allows.
    NameTooLong,
    /// A write to a filesystem that is open read-only.
    ReadOnly,
    /// No space left.
    NoSpace,
    /// The quota of the user, group or project is exhausted.
    QuotaExceeded,
    /// Permission denied by the driver or by the host.
    Denied,
    /// The type or the flags (immutable, append-only) of the file forbid the operation.
    NotPermitted,
    /// The file can't have another hard link, or the directory another subdirectory.
    TooManyNames,
    /// The file would be larger than the filesystem allows.
    FileTooLarge,
    /// No such extended attribute.
    NoAttribute,
    /// Source and destination are on different filesystems.
    CrossesDevices,
    /// The file can't be removed because it is in use.
    Busy,
    /// An invalid argument, or an operation that is impossible for this file.
    Invalid,
    /// The caller has cancelled the work.
    Cancelled,
}

impl ErrorKind {
    /// Returns the errno(3) that a program sees.
    pub const fn errno(self) -> i32 {
        use rustix::io::Errno;
        match self {
            Self::Io => Errno::IO,
            // EUCLEAN, which the kernel's ext4 and XFS return for a corrupt structure.
            Self::Corrupt => Errno::UCLEAN,
            Self::Unsupported => Errno::OPNOTSUPP,
            Self::NotFound => Errno::NOENT,
            Self::Exists => Errno::EXIST,
            Self::NotADirectory => Errno::NOTDIR,
            Self::IsADirectory => Errno::ISDIR,
            Self::NotEmpty => Errno::NOTEMPTY,
            Self::TooManyLinks => Errno::LOOP,
            Self::NameTooLong => Errno::NAMETOOLONG,
            Self::ReadOnly => Errno::ROFS,
            Self::NoSpace => Errno::NOSPC,
            Self::QuotaExceeded => Errno::DQUOT,
            Self::Denied => Errno::ACCESS,
            Self::NotPermitted => Errno::PERM,
            Self::TooManyNames => Errno::MLINK,
            Self::FileTooLarge => Errno::FBIG,
            Self::NoAttribute => Errno::NODATA,
            Self::CrossesDevices => Errno::XDEV,
            Self::Busy => Errno::BUSY,
            Self::Invalid => Errno::INVAL,
            Self::Cancelled => Errno::CANCELED,
        }
        .raw_os_error()
    }

    /// Returns true if an operation that fails with this kind may be half done: no space was left,
    /// or a layer below failed. All other errors occur before the first change.
    pub const fn is_halfway(self) -> bool {
        matches!(
            self,
            Self::Io
                | Self::Corrupt
                | Self::ReadOnly
                | Self::NoSpace
                | Self::QuotaExceeded
                | Self::FileTooLarge
                | Self::Cancelled
        )
    }

    /// Returns the kind of a failed system call, for code that exposes a filesystem of the kernel.
    pub const fn from_errno(errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            Errno::NOENT | Errno::STALE => Self::NotFound,
            Errno::EXIST => Self::Exists,
            Errno::NOTDIR => Self::NotADirectory,
            Errno::ISDIR => Self::IsADirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::LOOP => Self::TooManyLinks,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::ROFS => Self::ReadOnly,
            // The value is too large for any free space.
            Errno::NOSPC | Errno::TOOBIG => Self::NoSpace,
            Errno::DQUOT => Self::QuotaExceeded,
            Errno::ACCESS => Self::Denied,
            Errno::PERM => Self::NotPermitted,
            Errno::MLINK => Self::TooManyNames,
            Errno::FBIG | Errno::OVERFLOW => Self::FileTooLarge,
            Errno::NODATA => Self::NoAttribute,
            Errno::XDEV => Self::CrossesDevices,
            Errno::BUSY | Errno::TXTBSY => Self::Busy,
            Errno::INVAL => Self::Invalid,
            Errno::CANCELED => Self::Cancelled,
            Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => Self::Unsupported,
            Errno::UCLEAN | Errno::ILSEQ => Self::Corrupt,
            _ => Self::Io,
        }
    }
}

/// Converts the return value of a progress callback to a result.
///
/// # Errors
/// `Cancelled` for [`ControlFlow::Break`].
pub fn check_cancelled(answer: ControlFlow<()>) -> Result<()> {
    match answer {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ErrorKind::Cancelled.into()),
    }
}

/// An error of the filesystem layer: what failed, where, and what the user can do.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    reason: Cow<'static, str>,
    inode: Option<InodeNumber>,
    path: Option<Vec<u8>>,
    offset: Option<u64>,
    hint: Option<Cow<'static, str>>,
    source: Option<Source>,
}

impl Error {
    /// Returns an error without a place. The reason starts in lower case and has no full stop.
    pub fn new(kind: ErrorKind, reason: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            reason: reason.into(),
            inode: None,
            path: None,
            offset: None,
            hint: None,
            source: None,
        }))
    }

    /// Sets the inode that the error is about, unless one is set already: the innermost place is
    /// kept.
    #[must_use]
    pub fn in_inode(mut self, inode: InodeNumber) -> Self {
        self.0.inode.get_or_insert(inode);
        self
    }

    /// Sets the path within the filesystem that the error is about, unless one is set already.
    #[must_use]
    pub fn in_path(mut self, path: impl AsRef<[u8]>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_vec());
        self
    }

    /// Puts `dir` before the path: paths of a walk or a copy are relative to its start.
    #[must_use]
    pub fn below(mut self, dir: impl AsRef<[u8]>) -> Self {
        let rest = self.0.path.take().unwrap_or_default();
        self.0.path = Some(join(dir.as_ref(), &rest));
        self
    }

    /// Sets the byte offset in the filesystem's device that the error is about.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Sets the next step for the user, as a phrase: `run e2fsck on a copy`.
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

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what failed, without place, next step and source.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the inode that the error is about.
    pub fn inode(&self) -> Option<InodeNumber> {
        self.0.inode
    }

    /// Returns the path within the filesystem that the error is about.
    pub fn path(&self) -> Option<&[u8]> {
        self.0.path.as_deref()
    }

    /// Returns the byte offset in the filesystem's device that the error is about.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns what the user can do about the error.
    pub fn next_step(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        let reason = match kind {
            ErrorKind::Io => "input/output error",
            ErrorKind::Corrupt => "corrupt structure",
            ErrorKind::Unsupported => "not supported",
            ErrorKind::NotFound => "no such file or directory",
            ErrorKind::Exists => "file exists",
            ErrorKind::NotADirectory => "not a directory",
            ErrorKind::IsADirectory => "is a directory",
            ErrorKind::NotEmpty => "directory not empty",
            ErrorKind::TooManyLinks => "too many levels of symbolic links",
            ErrorKind::NameTooLong => "file name too long",
            ErrorKind::ReadOnly => "read-only filesystem",
            ErrorKind::NoSpace => "no space left",
            ErrorKind::QuotaExceeded => "quota exceeded",
            ErrorKind::Denied => "permission denied",
            ErrorKind::NotPermitted => "operation not permitted",
            ErrorKind::TooManyNames => "too many links",
            ErrorKind::FileTooLarge => "file too large",
            ErrorKind::NoAttribute => "no such attribute",
            ErrorKind::CrossesDevices => "on another filesystem",
            ErrorKind::Busy => "in use",
            ErrorKind::Invalid => "not possible for this file",
            ErrorKind::Cancelled => "cancelled",
        };
        Self::new(kind, reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", String::from_utf8_lossy(path).escape_debug())?;
        }
        f.write_str(&self.0.reason)?;
        match (self.0.inode, self.0.offset) {
            (Some(inode), Some(offset)) => write!(f, " (inode {inode}, byte {offset:#x})")?,
            (Some(inode), None) => write!(f, " (inode {inode})")?,
            (None, Some(offset)) => write!(f, " (at byte {offset:#x})")?,
            (None, None) => {}
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
            .field("inode", &self.0.inode)
            .field("path", &self.0.path.as_deref().map(String::from_utf8_lossy))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_sees_is_taken_back_for_the_same_kind() {
        use rustix::io::Errno;
        for number in 1..134 {
            let errno = Errno::from_raw_os_error(number);
            let kind = ErrorKind::from_errno(errno);
            let seen = Errno::from_raw_os_error(kind.errno());
            assert_eq!(ErrorKind::from_errno(seen), kind, "{errno}");
        }
        assert_eq!(ErrorKind::from_errno(Errno::STALE), ErrorKind::NotFound);
        assert_eq!(ErrorKind::from_errno(Errno::IO), ErrorKind::Io);
    }

    #[test]
    fn says_what_and_where() {
        let e = Error::new(
            ErrorKind::Corrupt,
            "extent header has magic 0x0, not 0xf30a",
        )
        .in_inode(InodeNumber(12))
        .in_path(b"/etc/x\xff")
        .at(0x1000);
        assert_eq!(
            e.to_string(),
            "/etc/x\u{fffd}: extent header has magic 0x0, not 0xf30a (inode 12, byte 0x1000)"
        );
        assert_eq!(e.kind().errno(), 117);
    }

    #[test]
    fn a_relative_path_goes_below_where_it_began() {
        let at = |path: &str, dir: &str| {
            let error = Error::from(ErrorKind::Io).in_path(path).below(dir);
            String::from_utf8(error.path().unwrap().to_vec()).unwrap()
        };
        assert_eq!(at("a/b", "/etc"), "/etc/a/b");
        assert_eq!(at("a", "/"), "/a");
        assert_eq!(at("", "/etc"), "/etc");
        let pathless = Error::from(ErrorKind::Io).below("/etc");
        assert_eq!(pathless.path(), Some(&b"/etc"[..]));
    }
}
