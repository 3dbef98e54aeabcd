//! The image of a job.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An image, and how to open it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The path of the image or block device on the host.
    pub path: PathBuf,
    /// The format, as `--format` of the command line takes it; `None` to probe it.
    pub format: Option<String>,
    /// The passphrase of an encrypted image or volume.
    pub passphrase: Option<Secret>,
}

/// A text that logs must not show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Returns the secret as text; bytes that are not valid UTF-8 become replacement characters.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}
