//! The errors for damaged archives.

use std::io::{self, Read};

use diskfs_disk::{Error, ErrorKind};

pub(crate) fn cut_short() -> Error {
    Error::new(ErrorKind::Corrupt, "the archive is truncated")
}

pub(crate) fn not_tar(why: &str) -> Error {
    let reason = format!("not a tar archive, or a damaged one: {why}");
    Error::new(ErrorKind::Corrupt, reason)
}

pub(crate) fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("invalid {what} in the archive"))
}

/// A reader of a decompressor, whose own errors mean that the data is damaged.
pub(crate) struct Decoded<R>(pub(crate) R);

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(damaged)
    }
}

/// Converts an error of a decompressor, unless it is one of its input.
pub(crate) fn damaged(error: io::Error) -> io::Error {
    let is_ours = error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Error>);
    if error.raw_os_error().is_some() || is_ours {
        return error;
    }
    let reason = format!("damaged compressed data: {error}");
    Error::new(ErrorKind::Corrupt, reason).into()
}
