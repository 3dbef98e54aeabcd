//! Parsing of image specs from the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use diskfs_block::{Error, Result};
use diskfs_oci::RegistryName;

use crate::{Format, OpenOptions, uri};

/// An image as the user spells it: a path and options, as QEMU spells them.
///
/// `disk.qcow2`, `disk.qcow2,format=qcow2,snapshot=before`. A comma in a path or a value is
/// doubled. Options: `format` (or `driver`), `snapshot`, `disk` (of a package), `backing.format` (or
/// `backing.driver`).
///
/// ```
/// use diskfs_image::{Format, ImageSpec};
///
/// let spec: ImageSpec = "a,,b.qcow2,format=qcow2,snapshot=before".parse()?;
/// assert_eq!(spec.path.to_str(), Some("a,b.qcow2"));
/// assert_eq!(spec.format, Some(Format::Qcow2));
/// assert_eq!(spec.snapshot.as_deref(), Some("before"));
/// # Ok::<(), diskfs_block::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageSpec {
    /// The path of the image file.
    pub path: PathBuf,
    /// The format, if given.
    pub format: Option<Format>,
    /// The internal snapshot to read, if given.
    pub snapshot: Option<String>,
    /// The disk of a package to open, if given.
    pub disk: Option<String>,
    /// The format of a backing file whose image does not name it, if given.
    pub backing_format: Option<Format>,
}

impl ImageSpec {
    /// Parses a spec from the command line, which need not be UTF-8.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](diskfs_block::ErrorKind::Invalid) for an unknown option;
    /// [`ErrorKind::Unsupported`](diskfs_block::ErrorKind::Unsupported) for an unknown format, and
    /// for an image on another machine whose scheme is unknown (`ftp://...`).
    pub fn parse(spec: &OsStr) -> Result<Self> {
        let mut parts = split_at_commas(spec.as_bytes()).into_iter();
        let path = parts.next().unwrap_or_default();
        if path.is_empty() {
            return Err(Error::invalid("missing file name"));
        }
        uri::refuse_unknown(&path)?;
        let mut parsed = Self {
            path: PathBuf::from(OsStr::from_bytes(&path)),
            ..Self::default()
        };
        for option in parts {
            parsed.take_option(&option)?;
        }
        Ok(parsed)
    }

    /// Returns the URI of the image, if it is on another machine; `None` for a file.
    pub fn remote_uri(&self) -> Option<&str> {
        uri::of(&self.path)
    }

    /// Returns true for the disk of an OCI image in a registry.
    pub fn is_in_registry(&self) -> bool {
        self.remote_uri().is_some_and(RegistryName::is_uri)
    }

    /// Returns the path for messages: that of a URI without what may be secret.
    pub fn shown_path(&self) -> PathBuf {
        match self.remote_uri() {
            Some(uri) => uri::shown(uri).into(),
            None => self.path.clone(),
        }
    }

    fn take_option(&mut self, option: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(option);
        match text.split_once('=') {
            Some(("format" | "driver", value)) => self.format = Some(value.parse()?),
            Some(("snapshot", value)) => self.snapshot = Some(value.to_owned()),
            Some(("disk", value)) => self.disk = Some(value.to_owned()),
            Some(("backing.format" | "backing.driver", value)) => {
                self.backing_format = Some(value.parse()?);
            }
            _ => {
                let reason = format!("unknown image option `{}`", text.escape_debug());
                return Err(Error::invalid(reason).with_hint(
                    "known: format=, snapshot=, disk=, backing.format=; double a comma that is part \
                     of the name",
                ));
            }
        }
        Ok(())
    }

    /// Returns `options` overridden by those of the spec.
    #[must_use]
    pub fn options_over(&self, options: &OpenOptions) -> OpenOptions {
        OpenOptions {
            format: self.format.or(options.format),
            snapshot: self.snapshot.clone().or_else(|| options.snapshot.clone()),
            disk: self.disk.clone().or_else(|| options.disk.clone()),
            backing_format: self.backing_format.or(options.backing_format),
            ..options.clone()
        }
    }
}

impl FromStr for ImageSpec {
    type Err = Error;

    fn from_str(spec: &str) -> Result<Self> {
        Self::parse(OsStr::new(spec))
    }
}

/// Splits at single commas; a double comma is a comma in the part.
fn split_at_commas(spec: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = vec![];
    let mut part = vec![];
    let mut bytes = spec.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b',' {
            part.push(byte);
        } else if bytes.next_if_eq(&b',').is_some() {
            part.push(b',');
        } else {
            parts.push(std::mem::take(&mut part));
        }
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_block::ErrorKind;

    #[test]
    fn commas_are_doubled() {
        let spec: ImageSpec = "a,,b,,,snapshot=x,,y".parse().unwrap();
        assert_eq!(spec.path, PathBuf::from("a,b,"));
        assert_eq!(spec.snapshot.as_deref(), Some("x,y"));
        let spec: ImageSpec = "m.ova,disk=a,,b.vmdk".parse().unwrap();
        assert_eq!(spec.disk.as_deref(), Some("a,b.vmdk"));
        let plain: ImageSpec = "/disk.img".parse().unwrap();
        assert_eq!((plain.format, plain.snapshot), (None, None));
    }

    #[test]
    fn unknown_options_are_refused() {
        for bad in ["a,", "a,b", "a,size=3", "", ",format=raw"] {
            let e = bad.parse::<ImageSpec>().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Invalid, "{bad}");
        }
        let e = "a,format=cloop".parse::<ImageSpec>().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn the_spec_wins_over_the_options() {
        let options = OpenOptions {
            format: Some(Format::Qcow2),
            snapshot: Some("a".into()),
            ..OpenOptions::default()
        };
        let spec: ImageSpec = "d,format=raw".parse().unwrap();
        let merged = spec.options_over(&options);
        assert_eq!(merged.format, Some(Format::Raw));
        assert_eq!(merged.snapshot.as_deref(), Some("a"));
    }
}
