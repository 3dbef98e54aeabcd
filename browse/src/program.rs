//! The program whose commands answer the requests.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The program, and what its command line has in common for all requests.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program's file.
    pub path: PathBuf,
    /// The options that follow the name of each command, such as `--key=all:file:FILE`.
    pub options: Vec<OsString>,
    /// The images, as the user named them.
    pub images: Vec<OsString>,
}

impl Program {
    /// Returns the operand for a path in an image: `IMG:/PATH`.
    pub(crate) fn operand(image: &OsStr, path: &[u8]) -> OsString {
        OsString::from_vec([image.as_bytes(), b":", path].concat())
    }
}
