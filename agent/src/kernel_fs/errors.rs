//! Conversion of errnos into filesystem errors.

use std::io;

use diskfs_vfs::{Error, ErrorKind};
use rustix::io::Errno;

/// Converts the error of a system call.
pub(super) fn failed(errno: Errno) -> Error {
    match ErrorKind::from_errno(errno) {
        // The errno's text says more than the kind.
        ErrorKind::Io => Error::new(ErrorKind::Io, errno.to_string()),
        kind => kind.into(),
    }
}

/// Converts an error of the standard library.
pub(super) fn io_failed(error: &io::Error) -> Error {
    failed(errno_of(error))
}

pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
