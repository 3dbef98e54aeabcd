//! Errors as objects, and the guard that keeps panics in this library.
#![expect(unsafe_code, reason = "exported names are unsafe attributes")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use diskfs::{Error, ErrorKind, Result};

use crate::ffi::{put, string};

/// The kind of an error: a small and stable set, for programs to branch on.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskfsErrorKind {
    /// Any other failure.
    Other = 0,
    /// The host failed to read or write; a retry may help.
    Io = 1,
    /// The data violates the specification of its format.
    Corrupt = 2,
    /// The data needs a feature that diskfs does not support.
    Unsupported = 3,
    /// No such image, volume, snapshot or file.
    NotFound = 4,
    /// A file, image or volume with that name exists already.
    Exists = 5,
    /// A component of a path is not a directory.
    NotADirectory = 6,
    /// A directory where a regular file is required.
    IsADirectory = 7,
    /// A write to something that is open read-only.
    ReadOnly = 8,
    /// No space left.
    NoSpace = 9,
    /// The image is in use by another process.
    Locked = 10,
    /// The host's permissions or a policy deny the access, or the key of an encrypted volume is
    /// missing or wrong.
    Denied = 11,
    /// Several volumes or operating systems qualify; the message lists them.
    Ambiguous = 12,
    /// An invalid argument or request.
    Invalid = 13,
    /// The callback has cancelled the work.
    Cancelled = 14,
    /// A defect of diskfs, which is worth a report. The disk must be closed.
    Internal = 15,
}

impl From<ErrorKind> for DiskfsErrorKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Io => Self::Io,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Exists => Self::Exists,
            ErrorKind::NotADirectory => Self::NotADirectory,
            ErrorKind::IsADirectory => Self::IsADirectory,
            ErrorKind::ReadOnly => Self::ReadOnly,
            ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::Locked => Self::Locked,
            ErrorKind::Denied => Self::Denied,
            ErrorKind::Ambiguous => Self::Ambiguous,
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Other,
        }
    }
}

/// An error: its kind, its errno(3) and its message.
#[derive(Debug)]
pub struct DiskfsError {
    kind: DiskfsErrorKind,
    kind_name: CString,
    errno: c_int,
    message: CString,
}

impl From<Error> for DiskfsError {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind().into(),
            kind_name: string(error.kind().name()),
            errno: error.errno(),
            message: string(error.to_string()),
        }
    }
}

impl DiskfsError {
    /// Returns the error for a panic.
    fn internal(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let reason = text.unwrap_or("unknown panic");
        Self {
            kind: DiskfsErrorKind::Internal,
            kind_name: string("internal"),
            errno: Error::new(ErrorKind::Other, "").errno(),
            message: string(format!("internal error: {reason}; please report it")),
        }
    }
}

/// Returns what `act` returns. After an error or a panic, stores the error and returns `failed`.
///
/// After a panic no invariant of ours is broken that could break memory: locks are poisoned and
/// their data is used again only where that is documented. So nothing is unsafe about unwinding.
pub(crate) fn guard<T>(
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
    failed: T,
    act: impl FnOnce() -> Result<T>,
) -> T {
    let (result, failure) = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(result)) => (result, None),
        Ok(Err(error)) => (failed, Some(Box::new(error.into()))),
        Err(panic) => (failed, Some(Box::new(DiskfsError::internal(&*panic)))),
    };
    put(error, failure);
    result
}

/// Returns the kind of an error; `DISKFS_ERROR_KIND_OTHER` for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_error_get_kind(error: Option<&DiskfsError>) -> DiskfsErrorKind {
    error.map_or(DiskfsErrorKind::Other, |error| error.kind)
}

/// Returns the name of the kind as in JSON, such as `not_found`. It is valid until the error is
/// freed.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_error_get_kind_name(error: Option<&DiskfsError>) -> *const c_char {
    error.map_or(c"other".as_ptr(), |error| error.kind_name.as_ptr())
}

/// Returns the errno(3) that describes the error best, such as ENOTEMPTY, for programs that know no
/// other errors; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_error_get_errno(error: Option<&DiskfsError>) -> c_int {
    error.map_or(0, |error| error.errno)
}

/// Returns the message: what failed, where, and what to do next, in one line of UTF-8. It is valid
/// until the error is freed.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_error_get_message(error: Option<&DiskfsError>) -> *const c_char {
    let none: &CStr = c"no error";
    error.map_or(none.as_ptr(), |error| error.message.as_ptr())
}

/// Frees an error. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_error_free(error: Option<Box<DiskfsError>>) {
    drop(error);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(act: impl FnOnce() -> Result<u8>) -> Option<Box<DiskfsError>> {
        let mut place = MaybeUninit::new(None);
        guard(Some(&mut place), 0, act);
        // SAFETY: it has had a value from the beginning.
        unsafe { place.assume_init() }
    }

    #[test]
    fn a_panic_is_an_internal_error() {
        let error = failure(|| panic!("index {} out of bounds", 7)).unwrap();
        assert_eq!(error.kind, DiskfsErrorKind::Internal);
        let message = error.message.to_str().unwrap();
        assert!(message.contains("index 7 out of bounds"), "{message}");
    }

    #[test]
    fn success_clears_the_error() {
        assert!(failure(|| Ok(1)).is_none());
        let error = failure(|| Err(Error::new(ErrorKind::Locked, "in\0use"))).unwrap();
        assert_eq!(error.kind, DiskfsErrorKind::Locked);
        assert_eq!(error.message.as_c_str(), c"in use");
        assert_eq!(error.kind_name.as_c_str(), c"locked");
    }
}
