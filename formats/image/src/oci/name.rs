//! The name of a disk in an OCI image: `oci-layout:DIR[:TAG][#/disk/path]`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use diskfs_block::{Error, Result};
use diskfs_oci::INDEX_NAME;

/// The storage of an OCI image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// An image layout in a directory.
    Layout,
    /// An image layout in a tar archive.
    Archive,
}

/// The prefixes of names.
const PREFIXES: [(&[u8], StoreKind); 2] = [
    (b"oci-layout:", StoreKind::Layout),
    (b"oci-archive:", StoreKind::Archive),
];

/// A parsed name. Neither the directory nor the archive may contain a colon or a `#`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OciName<'a> {
    pub(crate) kind: StoreKind,
    /// The directory or the archive.
    pub(crate) file: &'a Path,
    /// The tag, the name or the digest of the image.
    pub(crate) reference: Option<&'a str>,
    /// The path of the disk in the image, or its name in an artifact.
    pub(crate) disk: Option<&'a str>,
    /// The name without that of the disk.
    image: &'a [u8],
}

impl<'a> OciName<'a> {
    /// Parses a name; returns `None` for that of another image.
    pub(crate) fn parse(path: &'a Path) -> Option<Result<Self>> {
        let text = path.as_os_str().as_bytes();
        let mut prefixes = PREFIXES.iter();
        let (rest, kind) =
            prefixes.find_map(|(prefix, kind)| Some((text.strip_prefix(*prefix)?, *kind)))?;
        Some(Self::parse_rest(text, rest, kind).map_err(|e| e.in_file(path)))
    }

    fn parse_rest(text: &'a [u8], rest: &'a [u8], kind: StoreKind) -> Result<Self> {
        let (named, disk) = split(rest, b'#');
        let image_bytes = text
            .len()
            .saturating_sub(disk.map_or(0, |disk| 1_usize.saturating_add(disk.len())));
        let (mut file, reference) = split(named, b':');
        let mut reference = reference.map(utf8).transpose()?;
        // `DIR@sha256:...`
        for algorithm in ["@sha256", "@sha512"] {
            if let Some(directory) = file.strip_suffix(algorithm.as_bytes()) {
                let from = directory.len().saturating_add(1);
                reference = named.get(from..).map(utf8).transpose()?;
                file = directory;
            }
        }
        if file.is_empty() {
            let reason = "missing file name of an OCI image";
            let hint = "write oci-layout:DIR:TAG or oci-archive:FILE:TAG";
            return Err(Error::invalid(reason).with_hint(hint));
        }
        Ok(Self {
            kind,
            file: Path::new(OsStr::from_bytes(file)),
            reference: reference.filter(|it| !it.is_empty()),
            disk: disk.map(utf8).transpose()?.filter(|it| !it.is_empty()),
            image: text.get(..image_bytes).unwrap_or(text),
        })
    }

    /// Returns the file that is opened first: the index of the layout, or the archive.
    pub(crate) fn first_file(&self) -> PathBuf {
        match self.kind {
            StoreKind::Layout => self.file.join(INDEX_NAME),
            StoreKind::Archive => self.file.to_owned(),
        }
    }

    /// Returns the name without that of a disk.
    pub(crate) fn of_image(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(self.image))
    }

    /// Returns the name of this disk of the image.
    pub(crate) fn of_disk(&self, disk: &str) -> PathBuf {
        let name = [self.image, b"#", disk.as_bytes()].concat();
        PathBuf::from(OsStr::from_bytes(&name))
    }
}

/// Splits at the first separator.
fn split(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    let mut parts = text.splitn(2, |byte| *byte == separator);
    (parts.next().unwrap_or_default(), parts.next())
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    let invalid = |_| Error::invalid("invalid name of an OCI image: it is not UTF-8");
    std::str::from_utf8(bytes).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_up_to_three_parts() {
        let digest = "sha256:00";
        for (text, file, reference, disk) in [
            ("oci-layout:dir", "dir", None, None),
            ("oci-layout:/a/dir:41", "/a/dir", Some("41"), None),
            (
                "oci-layout:dir:quay.io/f:41",
                "dir",
                Some("quay.io/f:41"),
                None,
            ),
            ("oci-layout:dir:sha256:00", "dir", Some(digest), None),
            ("oci-layout:dir@sha256:00", "dir", Some(digest), None),
            ("oci-layout:dir#/disk/a", "dir", None, Some("/disk/a")),
            (
                "oci-archive:a.tar:x#/disk/b:c",
                "a.tar",
                Some("x"),
                Some("/disk/b:c"),
            ),
            ("oci-archive:a.tar:#", "a.tar", None, None),
        ] {
            let name = OciName::parse(Path::new(text)).unwrap().unwrap();
            assert_eq!(name.file, Path::new(file), "{text}");
            assert_eq!((name.reference, name.disk), (reference, disk), "{text}");
        }
        let name = OciName::parse(Path::new("oci-layout:d:1#/x"))
            .unwrap()
            .unwrap();
        assert_eq!(name.of_disk("/disk/a"), Path::new("oci-layout:d:1#/disk/a"));
        assert_eq!(name.first_file(), Path::new("d/index.json"));
        for other in ["disk.img", "./oci-layout:x", "oci-layout"] {
            assert!(OciName::parse(Path::new(other)).is_none(), "{other}");
        }
        for bad in ["oci-layout:", "oci-archive::tag", "oci-layout:#/disk"] {
            assert!(OciName::parse(Path::new(bad)).unwrap().is_err(), "{bad}");
        }
    }
}
