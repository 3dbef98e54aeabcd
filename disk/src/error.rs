//! The error type of this crate, and the exit codes of the program.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use diskfs_block as block;
use diskfs_vfs as vfs;

/// [`std::result::Result`] with the [`Error`] of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error: a small and stable set, for callers to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The host failed to read or write; a retry may help.
    Io,
    /// The data violates the specification of its format.
    Corrupt,
    /// The data is valid as far as is known, but needs a feature that diskfs does not support.
    Unsupported,
    /// No such image, volume, snapshot or file.
    NotFound,
    /// A file, image or volume with that name exists already.
    Exists,
    /// A component of a path is not a directory.
    NotADirectory,
    /// A directory where a regular file is required.
    IsADirectory,
    /// A write to something that is open read-only.
    ReadOnly,
    /// No space left.
    NoSpace,
    /// The image is in use by another process.
    Locked,
    /// The host's permissions or a policy (the [`Gate`](crate::Gate)) deny the access.
    Denied,
    /// Several volumes, filesystems or operating systems qualify; the error lists them.
    Ambiguous,
    /// An invalid argument or request.
    Invalid,
    /// The caller has cancelled the work.
    Cancelled,
    /// Any other failure.
    Other,
}

impl ErrorKind {
    const ALL: [Self; 15] = [
        Self::Io,
        Self::Corrupt,
        Self::Unsupported,
        Self::NotFound,
        Self::Exists,
        Self::NotADirectory,
        Self::IsADirectory,
        Self::ReadOnly,
        Self::NoSpace,
        Self::Locked,
        Self::Denied,
        Self::Ambiguous,
        Self::Invalid,
        Self::Cancelled,
        Self::Other,
    ];

    /// Returns the exit code of the `diskfs` program: 1 failed, 2 usage, 3 not found, 4
    /// unsupported, 5 corrupt, 6 locked or denied.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ambiguous | Self::Invalid => 2,
            Self::NotFound => 3,
            Self::Unsupported => 4,
            Self::Corrupt => 5,
            Self::Locked | Self::Denied => 6,
            _ => 1,
        }
    }

    /// Returns true if an operation that fails with this kind may be half done: no space was left,
    /// or a layer below failed.
    pub const fn is_halfway(self) -> bool {
        matches!(
            self,
            Self::Io | Self::Corrupt | Self::ReadOnly | Self::NoSpace | Self::Cancelled
        )
    }

    /// Returns the kind with a [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.name() == name)
    }

    /// Returns the name of the kind in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::NotADirectory => "not_a_directory",
            Self::IsADirectory => "is_a_directory",
            Self::ReadOnly => "read_only",
            Self::NoSpace => "no_space",
            Self::Locked => "locked",
            Self::Denied => "denied",
            Self::Ambiguous => "ambiguous",
            Self::Invalid => "invalid",
            Self::Cancelled => "cancelled",
            Self::Other => "other",
        }
    }
}

impl From<block::ErrorKind> for ErrorKind {
    fn from(kind: block::ErrorKind) -> Self {
        use block::ErrorKind as K;
        match kind {
            K::Io => Self::Io,
            // Only an on-disk structure that points past the end of its device causes this: no
            // other code reads out of bounds here.
            K::Corrupt | K::OutOfBounds => Self::Corrupt,
            K::Unsupported => Self::Unsupported,
            K::NotFound => Self::NotFound,
            K::Exists => Self::Exists,
            K::ReadOnly => Self::ReadOnly,
            K::NoSpace => Self::NoSpace,
            K::Locked => Self::Locked,
            K::Denied => Self::Denied,
            K::Invalid => Self::Invalid,
            K::Cancelled => Self::Cancelled,
            _ => Self::Other,
        }
    }
}

impl From<vfs::ErrorKind> for ErrorKind {
    fn from(kind: vfs::ErrorKind) -> Self {
        use vfs::ErrorKind as K;
        match kind {
            K::Io => Self::Io,
            K::Corrupt => Self::Corrupt,
            K::Unsupported => Self::Unsupported,
            K::NotFound => Self::NotFound,
            K::Exists => Self::Exists,
            K::NotADirectory => Self::NotADirectory,
            K::IsADirectory => Self::IsADirectory,
            K::ReadOnly => Self::ReadOnly,
            K::NoSpace | K::QuotaExceeded => Self::NoSpace,
            K::Denied | K::NotPermitted => Self::Denied,
            K::Invalid => Self::Invalid,
            K::Cancelled => Self::Cancelled,
            _ => Self::Other,
        }
    }
}

impl From<io::ErrorKind> for ErrorKind {
    fn from(kind: io::ErrorKind) -> Self {
        use io::ErrorKind as K;
        match kind {
            K::NotFound => Self::NotFound,
            K::AlreadyExists => Self::Exists,
            K::NotADirectory => Self::NotADirectory,
            K::IsADirectory => Self::IsADirectory,
            K::PermissionDenied => Self::Denied,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Self::NoSpace,
            K::ReadOnlyFilesystem => Self::ReadOnly,
            K::Unsupported => Self::Unsupported,
            K::InvalidInput => Self::Invalid,
            _ => Self::Io,
        }
    }
}

/// An error of any layer: what failed, where, and what the user can do.
///
/// `Display` writes one line; [`source`](std::error::Error::source) gives the causes below it.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    path: Option<PathBuf>,
    cause: Cause,
}

enum Cause {
    Block(block::Error),
    Vfs(vfs::Error),
    Host(io::Error),
    Own {
        reason: String,
        hint: Option<String>,
    },
}

impl Error {
    /// Returns an error of this crate. The reason starts in lower case and has no full stop.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::from_cause(kind, Cause::Own { reason, hint: None })
    }

    fn from_cause(kind: ErrorKind, cause: Cause) -> Self {
        Self(Box::new(Inner {
            kind,
            path: None,
            cause,
        }))
    }

    /// Sets the next step for the user, unless an error of a lower layer has one already.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<String>) -> Self {
        match &mut self.0.cause {
            Cause::Block(e) => {
                let taken = std::mem::replace(e, block::Error::invalid(""));
                *e = taken.with_hint(text.into());
            }
            Cause::Vfs(e) => {
                let taken = std::mem::replace(e, vfs::ErrorKind::Invalid.into());
                *e = taken.with_hint(text.into());
            }
            Cause::Own { hint, .. } => {
                hint.get_or_insert_with(|| text.into());
            }
            Cause::Host(_) => {}
        }
        self
    }

    /// Sets the host file that the error is about (the image, or the output file), unless one is
    /// set already.
    #[must_use]
    pub fn in_file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let named = matches!(&self.0.cause, Cause::Block(e) if e.path().is_some());
        if !named {
            self.0.path.get_or_insert_with(|| path.to_owned());
        }
        self
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the path of the file or image that the error is about, if it names one.
    pub fn path(&self) -> Option<&Path> {
        match (&self.0.path, &self.0.cause) {
            (Some(path), _) => Some(path),
            (None, Cause::Block(e)) => e.path(),
            _ => None,
        }
    }

    /// Returns the errno(3) for callers that know no other errors: that of the filesystem or of
    /// the host if there is one, else one for the kind.
    pub fn errno(&self) -> i32 {
        use vfs::ErrorKind as K;
        match (&self.0.cause, self.0.kind) {
            (Cause::Vfs(e), _) => e.kind().errno(),
            (Cause::Host(e), _) if e.raw_os_error().is_some() => {
                e.raw_os_error().unwrap_or_default()
            }
            (_, ErrorKind::Corrupt) => K::Corrupt.errno(),
            (_, ErrorKind::Unsupported) => K::Unsupported.errno(),
            (_, ErrorKind::NotFound) => K::NotFound.errno(),
            (_, ErrorKind::Exists) => K::Exists.errno(),
            (_, ErrorKind::NotADirectory) => K::NotADirectory.errno(),
            (_, ErrorKind::IsADirectory) => K::IsADirectory.errno(),
            (_, ErrorKind::ReadOnly) => K::ReadOnly.errno(),
            (_, ErrorKind::NoSpace) => K::NoSpace.errno(),
            (_, ErrorKind::Locked) => K::Busy.errno(),
            (_, ErrorKind::Denied) => K::Denied.errno(),
            (_, ErrorKind::Ambiguous | ErrorKind::Invalid) => K::Invalid.errno(),
            (_, ErrorKind::Cancelled) => K::Cancelled.errno(),
            (_, ErrorKind::Io | ErrorKind::Other) => K::Io.errno(),
        }
    }

    /// Returns what failed, without place and next step.
    pub fn reason(&self) -> String {
        match &self.0.cause {
            Cause::Block(e) => e.reason().to_owned(),
            Cause::Vfs(e) => e.reason().to_owned(),
            Cause::Host(e) => block::host_reason(e),
            Cause::Own { reason, .. } => reason.clone(),
        }
    }

    /// Returns the host file that the error is about.
    pub fn file(&self) -> Option<&Path> {
        match &self.0.cause {
            Cause::Block(e) if e.path().is_some() => e.path(),
            _ => self.0.path.as_deref(),
        }
    }

    /// Returns the path within the filesystem that the error is about.
    pub fn guest_path(&self) -> Option<&[u8]> {
        match &self.0.cause {
            Cause::Vfs(e) => e.path(),
            _ => None,
        }
    }

    /// Returns the inode number that the error is about.
    pub fn inode(&self) -> Option<u64> {
        match &self.0.cause {
            Cause::Vfs(e) => e.inode().map(|inode| inode.0),
            _ => None,
        }
    }

    /// Returns the byte offset in the image, or in the filesystem's device, that the error is
    /// about.
    pub fn offset(&self) -> Option<u64> {
        match &self.0.cause {
            Cause::Block(e) => e.offset(),
            Cause::Vfs(e) => e.offset(),
            _ => None,
        }
    }

    /// Returns what the user can do about the error.
    pub fn next_step(&self) -> Option<&str> {
        match &self.0.cause {
            Cause::Block(e) => e.next_step(),
            Cause::Vfs(e) => e.next_step(),
            Cause::Own { hint, .. } => hint.as_deref(),
            Cause::Host(_) => None,
        }
    }

    /// Returns true if a filesystem of the host is full, not one of the guest. That may be why
    /// writing had stopped before (`ReadOnly`).
    pub fn is_host_full(&self) -> bool {
        matches!(self.kind(), ErrorKind::NoSpace | ErrorKind::ReadOnly)
            && block::with_reasons(self).contains(block::NO_SPACE_ON_HOST)
    }

    /// Returns true if writing failed because the reader of our output has closed the pipe.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(&self.0.cause, Cause::Host(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Error {
    /// Converts the error for callers of a driver: the reason why a filesystem could not be opened.
    pub(crate) fn into_vfs(self) -> vfs::Error {
        use vfs::ErrorKind as K;
        let kind = match self.kind() {
            ErrorKind::Corrupt => K::Corrupt,
            ErrorKind::Unsupported => K::Unsupported,
            ErrorKind::ReadOnly => K::ReadOnly,
            ErrorKind::Locked | ErrorKind::Denied => K::Denied,
            ErrorKind::Cancelled => K::Cancelled,
            // `NotFound` of a device does not become `NotFound` of a file: callers would mistake
            // one for the other.
            _ => K::Io,
        };
        vfs::Error::new(kind, self.to_string())
    }
}

impl From<block::Error> for Error {
    fn from(e: block::Error) -> Self {
        Self::from_cause(e.kind().into(), Cause::Block(e))
    }
}

impl From<vfs::Error> for Error {
    fn from(e: vfs::Error) -> Self {
        Self::from_cause(e.kind().into(), Cause::Vfs(e))
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        // An error of this crate that went through `std::io` (a read of a `FileReader`) is
        // unwrapped again.
        if e.get_ref()
            .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
        {
            let inner = e
                .into_inner()
                .and_then(|inner| inner.downcast::<Self>().ok());
            return inner.map_or_else(|| Self::new(ErrorKind::Io, "input/output error"), |e| *e);
        }
        Self::from_cause(e.kind().into(), Cause::Host(e))
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> Self {
        let kind = match e.kind() {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::Exists => io::ErrorKind::AlreadyExists,
            ErrorKind::NotADirectory => io::ErrorKind::NotADirectory,
            ErrorKind::IsADirectory => io::ErrorKind::IsADirectory,
            ErrorKind::Denied | ErrorKind::Locked => io::ErrorKind::PermissionDenied,
            ErrorKind::Corrupt => io::ErrorKind::InvalidData,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::Invalid | ErrorKind::Ambiguous => io::ErrorKind::InvalidInput,
            ErrorKind::Io | ErrorKind::Cancelled | ErrorKind::Other => io::ErrorKind::Other,
        };
        Self::new(kind, e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}", path.display())?;
            // The way users name a file of an image: `disk.qcow2:/etc/fstab`.
            f.write_str(if self.guest_path().is_some() {
                ":"
            } else {
                ": "
            })?;
        }
        match &self.0.cause {
            Cause::Block(e) => e.fmt(f),
            Cause::Vfs(e) if is_about_names(e.kind()) => fmt_names(e, f),
            Cause::Vfs(e) => e.fmt(f),
            Cause::Host(e) => f.write_str(&block::host_reason(e)),
            Cause::Own { reason, hint } => {
                f.write_str(reason)?;
                hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
            }
        }
    }
}

/// Returns true if the path says enough, so that the byte offset in the image is left out.
const fn is_about_names(kind: vfs::ErrorKind) -> bool {
    use vfs::ErrorKind as K;
    matches!(
        kind,
        K::NotFound
            | K::Exists
            | K::NotADirectory
            | K::IsADirectory
            | K::NotEmpty
            | K::TooManyLinks
            | K::NameTooLong
    )
}

fn fmt_names(e: &vfs::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(path) = e.path() {
        write!(f, "{}: ", String::from_utf8_lossy(path).escape_debug())?;
    }
    f.write_str(e.reason())?;
    e.next_step().map_or(Ok(()), |hint| write!(f, "; {hint}"))
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Error");
        f.field("kind", &self.0.kind).field("path", &self.0.path);
        match &self.0.cause {
            Cause::Block(e) => f.field("cause", e),
            Cause::Vfs(e) => f.field("cause", e),
            Cause::Host(e) => f.field("cause", e),
            Cause::Own { reason, .. } => f.field("reason", reason),
        };
        f.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` shows the cause itself, so the chain continues with the source of the cause.
        match &self.0.cause {
            Cause::Block(e) => e.source(),
            Cause::Vfs(e) => e.source(),
            Cause::Host(_) | Cause::Own { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = [
            (ErrorKind::Io, 1),
            (ErrorKind::Invalid, 2),
            (ErrorKind::Ambiguous, 2),
            (ErrorKind::NotFound, 3),
            (ErrorKind::Unsupported, 4),
            (ErrorKind::Corrupt, 5),
            (ErrorKind::Locked, 6),
            (ErrorKind::Denied, 6),
        ];
        for (kind, code) in codes {
            assert_eq!(kind.exit_code(), code, "{kind:?}");
        }
    }

    #[test]
    fn keeps_the_message_of_the_layer_below() {
        let below = block::Error::corrupt("L1 table is cut off")
            .at(512)
            .in_file("a.qcow2");
        let e = Error::from(below)
            .in_file("b.qcow2")
            .with_hint("make a new one");
        assert_eq!(
            e.to_string(),
            "a.qcow2: L1 table is cut off (at byte 0x200); make a new one"
        );
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(512)));
        assert_eq!(e.file(), Some(Path::new("a.qcow2")));
    }

    #[test]
    fn the_errno_is_that_of_the_layer_below() {
        let errno = |error: Error| error.errno();
        assert_eq!(errno(vfs::Error::from(vfs::ErrorKind::NotEmpty).into()), 39);
        assert_eq!(errno(io::Error::from_raw_os_error(24).into()), 24);
        assert_eq!(errno(io::Error::from(io::ErrorKind::NotFound).into()), 2);
        assert_eq!(errno(block::Error::corrupt("header").into()), 117);
        assert_eq!(errno(Error::new(ErrorKind::Locked, "in use")), 16);
    }

    #[test]
    fn survives_the_way_through_std_io() {
        let e = Error::from(vfs::Error::from(vfs::ErrorKind::Corrupt).in_path("/a"));
        let back = Error::from(io::Error::from(e));
        assert_eq!(back.kind(), ErrorKind::Corrupt);
        assert_eq!(back.guest_path(), Some(&b"/a"[..]));
        assert_eq!(
            back.in_file("d.img").to_string(),
            "d.img:/a: corrupt structure"
        );
        let host = Error::from(io::Error::from_raw_os_error(2)).in_file("x");
        assert_eq!(host.to_string(), "x: no such file or directory");
    }
}
