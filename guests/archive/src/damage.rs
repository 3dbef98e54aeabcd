//! The errors for damaged archives.

use diskfs_disk::{Error, ErrorKind};

pub(crate) fn cut_short() -> Error {
    Error::new(ErrorKind::Corrupt, "the archive is truncated")
}

pub(crate) fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("invalid {what} in the archive"))
}
