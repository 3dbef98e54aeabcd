//! The errors for which a policy is refused as a whole.

use crate::Text;

/// The reason for refusing a policy as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is longer than that of any real policy.
    #[error("{text} is too large: {bytes} bytes, at most {limit_bytes}")]
    TextTooLong {
        /// The text that is too long.
        text: Text,
        /// The length of the text in bytes.
        bytes: usize,
        /// The maximum length in bytes.
        limit_bytes: usize,
    },
    /// More lines, patterns or atoms than any real policy has.
    #[error("too many {what}, at most {limit} ({text}, line {line})")]
    TooMany {
        /// The text in which the limit is exceeded.
        text: Text,
        /// The number of the first line that exceeds the limit, from 1.
        line: usize,
        /// The items that are limited, in plural.
        what: &'static str,
        /// The limit for these items.
        limit: usize,
    },
}

/// A `Result` with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
