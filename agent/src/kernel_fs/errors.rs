//! From errno to what drivers answer.

use std::io;

use diskfs_vfs::{Error, ErrorKind};
use rustix::io::Errno;

/// The error of a system call.
pub(super) fn failed(errno: Errno) -> Error {
    match ErrorKind::from_errno(errno) {
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
