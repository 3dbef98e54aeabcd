//! Problems of a header's parts, kept until a caller needs the part.

use std::fmt;

use diskfs_block::{Error, ErrorKind};

/// The reason why a part of a header cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    kind: ErrorKind,
    reason: String,
}

impl Problem {
    pub(crate) fn corrupt(reason: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Corrupt,
            reason: reason.into(),
        }
    }

    pub(crate) fn unsupported(reason: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unsupported,
            reason: reason.into(),
        }
    }

    pub(crate) fn to_error(&self) -> Error {
        Error::new(self.kind, self.reason.clone())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
