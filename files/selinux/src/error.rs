//! Why a policy isn't taken at all.

use crate::Text;

/// What makes all of a policy's labels doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is longer than any policy's.
    #[error("{text} has {bytes} bytes, more than {limit_bytes}")]
    TextTooLong {
        /// Which text.
        text: Text,
        /// Its length.
        bytes: usize,
        /// The most that is read.
        limit_bytes: usize,
    },
    /// There are more lines with something to say than any policy has.
    #[error("{text} says more from line {line} on than a policy may: {limit} {what}")]
    TooMany {
        /// The text with the first line beyond.
        text: Text,
        /// That line, from 1.
        line: usize,
        /// What there are too many of.
        what: &'static str,
        /// The most that is taken.
        limit: usize,
    },
}

/// With [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
