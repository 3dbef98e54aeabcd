//! From errno to what drivers answer.

use std::io;

use diskfs_vfs::{Error, ErrorKind};
use rustix::io::Errno;

pub(super) fn kind(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT | Errno::STALE => ErrorKind::NotFound,
        Errno::EXIST => ErrorKind::Exists,
        Errno::NOTDIR => ErrorKind::NotADirectory,
        Errno::ISDIR => ErrorKind::IsADirectory,
        Errno::NOTEMPTY => ErrorKind::NotEmpty,
        Errno::LOOP => ErrorKind::TooManyLinks,
        Errno::NAMETOOLONG => ErrorKind::NameTooLong,
        Errno::ROFS => ErrorKind::ReadOnly,
        // A value that is too large for any room.
        Errno::NOSPC | Errno::TOOBIG => ErrorKind::NoSpace,
        Errno::DQUOT => ErrorKind::QuotaExceeded,
        Errno::ACCESS => ErrorKind::Denied,
        Errno::PERM => ErrorKind::NotPermitted,
        Errno::MLINK => ErrorKind::TooManyNames,
        Errno::FBIG | Errno::OVERFLOW => ErrorKind::FileTooLarge,
        Errno::NODATA => ErrorKind::NoAttribute,
        Errno::XDEV => ErrorKind::CrossesDevices,
        Errno::BUSY | Errno::TXTBSY => ErrorKind::Busy,
        Errno::INVAL => ErrorKind::Invalid,
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => ErrorKind::Unsupported,
        Errno::UCLEAN | Errno::ILSEQ => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    }
}

/// The error of a system call.
pub(super) fn failed(errno: Errno) -> Error {
    match kind(errno) {
        // The reason is more than the kind says.
        ErrorKind::Io => Error::new(ErrorKind::Io, errno.to_string()),
        kind => kind.into(),
    }
}

/// The same of one that the standard library made.
pub(super) fn io_failed(error: &io::Error) -> Error {
    failed(errno_of(error))
}

pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
