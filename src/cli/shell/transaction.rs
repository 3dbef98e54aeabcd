//! Changes that are kept in a temporary overlay until they are committed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use diskfs::{Error, ErrorKind, Result};

use super::children::Children;

/// A temporary overlay of the image.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The private directory of the overlay, which is removed with it.
    _directory: TempDir,
    overlay: PathBuf,
    /// The directory of the image, to which the overlay refers.
    images: PathBuf,
}

impl Transaction {
    /// Creates an overlay of an image.
    ///
    /// # Errors
    /// Fails if the image is not a local file, or if the overlay cannot be created.
    pub(super) fn begin(children: &Children, image: &OsStr, options: &[OsString]) -> Result<Self> {
        let path = Path::new(image).canonicalize();
        let path = path.map_err(|error| Error::from(error).in_file(image))?;
        let images = path.parent().unwrap_or(Path::new("/")).to_owned();
        let directory = tempfile::Builder::new().prefix("diskfs-shell-").tempdir()?;
        let overlay = directory.path().join("overlay.qcow2");
        let format = format_of(children, &path, options)?;
        let words = [
            "create".into(),
            option("--backing", path.as_os_str()),
            option("--backing-format", OsStr::new(&format)),
            option("--allow-backing", images.as_os_str()),
            "--".into(),
            overlay.clone().into(),
        ];
        children.document(&words)?;
        Ok(Self {
            _directory: directory,
            overlay,
            images,
        })
    }

    /// Returns the image that commands use.
    pub(super) fn image(&self) -> OsString {
        self.overlay.clone().into()
    }

    /// Returns the option that lets the overlay refer to the image.
    pub(super) fn option(&self) -> OsString {
        option("--allow-backing", self.images.as_os_str())
    }

    /// Writes the changes to the image, and returns the exit code of `diskfs commit`. If it fails,
    /// the overlay is still there.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub(super) fn commit(&self, children: &Children) -> io::Result<u8> {
        let words = ["commit".into(), self.option(), "--".into(), self.image()];
        children.run(&words, None)
    }
}

fn option(name: &str, value: &OsStr) -> OsString {
    [OsStr::new(name), OsStr::new("="), value]
        .into_iter()
        .collect()
}

/// Returns the format of an image.
fn format_of(children: &Children, image: &Path, options: &[OsString]) -> Result<String> {
    let mut words: Vec<OsString> = vec!["info".into()];
    words.extend_from_slice(options);
    words.extend(["--".into(), image.into()]);
    let document = children.document(&words)?;
    let format = document.pointer("/image/format").and_then(Value::as_str);
    let unknown = || Error::new(ErrorKind::Invalid, "unknown format").in_file(image);
    format.map(ToOwned::to_owned).ok_or_else(unknown)
}
