//! Errors that name a key of the plan.

use diskfs_disk::{Error, ErrorKind};

/// Returns an error about the value of a key.
pub(crate) fn invalid(key: &str, reason: impl AsRef<str>) -> Error {
    at(
        key,
        Error::new(ErrorKind::Invalid, reason.as_ref().to_owned()),
    )
}

/// Puts the key of the plan in front of an error.
pub(crate) fn at(key: &str, error: impl Into<Error>) -> Error {
    let error = error.into();
    let reason = format!("{key}: {}", error.reason());
    let mut named = Error::new(error.kind(), reason);
    if let Some(path) = error.path() {
        named = named.in_file(path);
    }
    match error.next_step() {
        Some(step) => named.with_hint(step.to_owned()),
        None => named,
    }
}
