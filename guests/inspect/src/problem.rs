//! What of a guest could not be read.

use std::fmt;

use serde::Serialize;

/// What could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Problem {
    /// The path in the guest.
    pub file: String,
    /// Why.
    pub reason: String,
}

impl Problem {
    /// Says that `file` could not be read, and why.
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
