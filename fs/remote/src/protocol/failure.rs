//! Errors of requests.

use diskfs_vfs::{Error, ErrorKind, InodeNumber};
use serde::{Deserialize, Serialize};

use super::MAX_REASON;

/// An [`Error`] in its wire format: the kind, the reason, and the inode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure<'a> {
    kind: Code,
    #[serde(borrow)]
    reason: &'a str,
    inode: Option<u64>,
}

impl<'a> Failure<'a> {
    /// Encodes an error.
    pub fn new(error: &'a Error) -> Self {
        Self {
            kind: error.kind().into(),
            reason: cut(error.reason()),
            inode: error.inode().map(|inode| inode.0),
        }
    }
}

impl From<Failure<'_>> for Error {
    fn from(failure: Failure<'_>) -> Self {
        // The text is untrusted: it must not send control sequences to a terminal.
        let reason: String = cut(failure.reason)
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        let error = Self::new(failure.kind.into(), reason);
        match failure.inode {
            Some(inode) => error.in_inode(InodeNumber(inode)),
            None => error,
        }
    }
}

/// Cuts a text to the maximum length.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_REASON))
        .unwrap_or_default()
}

/// Defines an enum with a wire number for each error kind.
macro_rules! codes {
    ($($kind:ident),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        enum Code {
            $($kind),*
        }

        impl From<ErrorKind> for Code {
            fn from(kind: ErrorKind) -> Self {
                match kind {
                    $(ErrorKind::$kind => Self::$kind,)*
                    // A kind of a later version of the protocol.
                    _ => Self::Io,
                }
            }
        }

        impl From<Code> for ErrorKind {
            fn from(code: Code) -> Self {
                match code {
                    $(Code::$kind => Self::$kind,)*
                }
            }
        }
    };
}

// The order is fixed: the numbers are part of the protocol.
codes![
    Io,
    Corrupt,
    Unsupported,
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    TooManyLinks,
    NameTooLong,
    ReadOnly,
    NoSpace,
    QuotaExceeded,
    Denied,
    NotPermitted,
    TooManyNames,
    FileTooLarge,
    NoAttribute,
    CrossesDevices,
    Busy,
    Invalid,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_as_it_went() {
        let error = Error::new(ErrorKind::QuotaExceeded, "no more").in_inode(InodeNumber(7));
        let there = postcard::to_allocvec(&Failure::new(&error)).unwrap();
        let back = Error::from(postcard::from_bytes::<Failure<'_>>(&there).unwrap());
        assert_eq!(back.kind(), ErrorKind::QuotaExceeded);
        assert_eq!(back.reason(), "no more");
        assert_eq!(back.inode(), Some(InodeNumber(7)));
    }

    #[test]
    fn a_reason_is_cut_and_harmless() {
        let error = Error::new(ErrorKind::Io, "ü\u{1b}".repeat(1000));
        let back = Error::from(Failure::new(&error));
        assert!(back.reason().len() <= MAX_REASON * 2);
        assert!(!back.reason().contains('\u{1b}'));
    }
}
