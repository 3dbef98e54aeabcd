//! The one error type of the filesystem layer.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use crate::InodeNumber;
use crate::join::join;

/// [`std::result::Result`] with the filesystem layer's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What kind of failure it was: small and stable, to branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device below failed.
    Io,
    /// The structures on the device contradict the filesystem's specification.
    Corrupt,
    /// It needs something that this driver does not do.
    Unsupported,
    /// No such file.
    NotFound,
    /// The name is taken.
    Exists,
    /// A path goes through something that is no directory.
    NotADirectory,
    /// A directory where a file is wanted.
    IsADirectory,
    /// The directory has entries.
    NotEmpty,
    /// Too many symlinks on the way.
    TooManyLinks,
    /// A name is longer than the filesystem allows.
    NameTooLong,
    /// Writing to something opened for reading only.
    ReadOnly,
    /// No room left.
    NoSpace,
    /// No room left for this user, group or project.
    QuotaExceeded,
    /// Permission denied, here or on the host.
    Denied,
    /// The file's kind or its flags (immutable, append-only) forbid it.
    NotPermitted,
    /// The file can't have another name, or the directory another directory.
    TooManyNames,
    /// The file would be larger than the filesystem allows.
    FileTooLarge,
    /// No such extended attribute.
    NoAttribute,
    /// From one filesystem to another.
    CrossesDevices,
    /// Something is in use that would have to go away.
    Busy,
    /// What the caller asked makes no sense for this file.
    Invalid,
    /// The caller has asked to stop.
    Cancelled,
}

impl ErrorKind {
    /// The errno(3) that a program sees for it.
    pub const fn errno(self) -> i32 {
        use rustix::io::Errno;
        match self {
            Self::Io => Errno::IO,
            // EUCLEAN, as the kernel's ext4 and XFS answer for a corrupt structure.
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

    /// Returns whether an operation that fails so may have done a part: there was no room, or
    /// something below failed. All other errors come before the first change.
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

    /// The kind that a system call's failure is of: for who shows a filesystem of the kernel's.
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
            // A value that is too large for any room.
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

/// Turns the answer of a progress callback into a result.
///
/// # Errors
/// `Cancelled` for [`ControlFlow::Break`].
pub fn go_on(answer: ControlFlow<()>) -> Result<()> {
    match answer {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ErrorKind::Cancelled.into()),
    }
}

/// What went wrong, where, and what to do about it.
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
    /// An error without a place yet. The reason starts in lower case and ends without a full stop.
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

    /// The inode that it is about. The innermost place stays: a second call changes nothing.
    #[must_use]
    pub fn in_inode(mut self, inode: InodeNumber) -> Self {
        self.0.inode.get_or_insert(inode);
        self
    }

    /// The path within the filesystem that it is about. The innermost path stays.
    #[must_use]
    pub fn in_path(mut self, path: impl AsRef<[u8]>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_vec());
        self
    }

    /// Puts `dir` before the path: what a walk or a copy tells is relative to where it began.
    #[must_use]
    pub fn below(mut self, dir: impl AsRef<[u8]>) -> Self {
        let rest = self.0.path.take().unwrap_or_default();
        self.0.path = Some(join(dir.as_ref(), &rest));
        self
    }

    /// The byte of the filesystem's device that it is about.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// What the user can do about it, as a phrase: `run e2fsck on a copy`.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint.get_or_insert(hint.into());
        self
    }

    /// The reason below this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What went wrong, without place, next step or source.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The inode that it is about.
    pub fn inode(&self) -> Option<InodeNumber> {
        self.0.inode
    }

    /// The path within the filesystem that it is about.
    pub fn path(&self) -> Option<&[u8]> {
        self.0.path.as_deref()
    }

    /// The byte of the filesystem's device that it is about.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// What the user can do about it.
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
            ErrorKind::TooManyNames => "too many names",
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
