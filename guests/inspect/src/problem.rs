//! A part of a guest that could not be read.

use std::fmt;

use serde::Serialize;

/// A file that could not be read, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Problem {
    /// The path in the guest.
    pub file: String,
    /// The reason why it could not be read.
    pub reason: String,
}

impl Problem {
    /// Returns a problem of `file`.
    pub fn new(file: &str, reason: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}
