//! Errors between a confined command and its broker.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[cfg(feature = "nbd")]
use diskfs::block;
use diskfs::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// The parts of an error.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    kind: String,
    reason: String,
    hint: Option<String>,
    path: Option<Vec<u8>>,
}

impl Failure {
    /// Returns the parts of an error.
    pub(super) fn of(error: &Error) -> Self {
        Self {
            kind: error.kind().name().to_owned(),
            reason: error.reason(),
            hint: error.next_step().map(Into::into),
            path: error
                .path()
                .map(|path| path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = ErrorKind::named(&failure.kind).unwrap_or(ErrorKind::Other);
        let mut error = Self::new(kind, failure.reason);
        if let Some(path) = failure.path {
            error = error.in_file(Path::new(OsStr::from_bytes(&path)));
        }
        match failure.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

#[cfg(feature = "nbd")]
impl From<Failure> for block::Error {
    fn from(failure: Failure) -> Self {
        let kind = match ErrorKind::named(&failure.kind) {
            Some(ErrorKind::NotFound) => block::ErrorKind::NotFound,
            Some(ErrorKind::Denied) => block::ErrorKind::Denied,
            Some(ErrorKind::ReadOnly) => block::ErrorKind::ReadOnly,
            Some(ErrorKind::Unsupported) => block::ErrorKind::Unsupported,
            Some(ErrorKind::Invalid) => block::ErrorKind::Invalid,
            Some(ErrorKind::Corrupt) => block::ErrorKind::Corrupt,
            Some(ErrorKind::Locked) => block::ErrorKind::Locked,
            _ => block::ErrorKind::Io,
        };
        let mut error = Self::new(kind, failure.reason);
        if let Some(path) = failure.path {
            error = error.in_file(Path::new(OsStr::from_bytes(&path)));
        }
        match failure.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}
