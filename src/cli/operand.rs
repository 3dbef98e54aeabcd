//! Parsing of operands: `IMG:/path`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use diskfs::image::{ImageSpec, host_file, is_oci};
use diskfs::{Error, ErrorKind, Result};

/// An image, optionally with a path in it, as the user typed it: `disk.qcow2:/etc/fstab`,
/// `disk.qcow2,snapshot=before:/etc`, `disk.qcow2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operand(OsString);

/// Returns the last operand, which is called `name`, and those before it.
///
/// Options can appear between operands, so their number is known only after all were parsed.
pub(crate) fn with_destination<'a>(
    operands: &'a [Operand],
    name: &str,
) -> Result<(&'a Operand, &'a [Operand])> {
    match operands {
        [sources @ .., destination] if !sources.is_empty() => Ok((destination, sources)),
        _ => {
            let only = operands.first().map(|only| only.0.to_string_lossy());
            let only = super::show::name::message(&only.unwrap_or_default());
            let reason = format!("missing {name}: `{only}` is the only operand");
            let error = Error::new(ErrorKind::Invalid, reason);
            Err(error.with_hint("give the sources first, and the destination last"))
        }
    }
}

/// Returns the images that operands name. A path without an image belongs to the image before it.
pub(crate) fn images(operands: &[Operand]) -> Vec<OsString> {
    let mut images: Vec<OsString> = Vec::new();
    for operand in operands {
        if images.is_empty() || !operand.is_bare_path() {
            images.push(operand.split().image);
        }
    }
    images
}

/// The parts of an [`Operand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperandParts {
    /// The image with its options.
    pub(crate) image: OsString,
    /// The path in the image.
    pub(crate) path: Option<Vec<u8>>,
}

impl From<OsString> for Operand {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl Operand {
    /// Returns the text as the user typed it.
    pub(crate) fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Fails for an image on another host without a path in it: the operand could otherwise be a
    /// path of this host.
    pub(crate) fn refuse_remote(&self) -> Result<()> {
        let parts = self.split();
        if parts.path.is_some() || remote_scheme(self.0.as_bytes()).is_none() {
            return Ok(());
        }
        if ImageSpec::parse(&parts.image)?.remote_uri().is_none() {
            return Ok(()); // A file of this host with such a name.
        }
        let error = Error::new(ErrorKind::Invalid, "missing the path in the image");
        let hint = "add it after a colon, as in `nbd://HOST/NAME:/etc`";
        Err(error.in_file(&self.0).with_hint(hint))
    }

    /// Returns an operand for a path in an image.
    pub(crate) fn at(image: &OsStr, path: &OsStr) -> Self {
        Self([image, path].join(OsStr::new(":")))
    }

    /// Returns true for a path without an image, which belongs to the image before it.
    pub(crate) fn is_bare_path(&self) -> bool {
        self.0.as_bytes().starts_with(b"/") && self.split().path.is_none()
    }

    /// Returns the image of an operand that must not have a path. `what` completes the error:
    /// `expected an image to serve`.
    pub(crate) fn image_alone(&self, what: &str) -> Result<OsString> {
        let parts = self.split();
        if parts.path.is_none() {
            return Ok(parts.image);
        }
        let error = Error::new(
            ErrorKind::Invalid,
            format!("expected an image {what}, not a path in it"),
        );
        Err(error.with_hint("give the image alone, and select a volume with --volume"))
    }

    /// Splits the operand at the last `:/`; if it has none, at a `:` after the name of an existing
    /// file. Both names may contain colons: if the part before the last `:/` is not a file, but the
    /// part before an earlier one or the whole operand is, that one is used.
    pub(crate) fn split(&self) -> OperandParts {
        self.split_by(|image| {
            let spec = ImageSpec::parse(OsStr::from_bytes(image));
            spec.is_ok_and(|spec| {
                host_file(&spec.path)
                    .metadata()
                    .is_ok_and(|meta| !meta.is_dir())
            })
        })
    }

    fn split_by(&self, is_image: impl Fn(&[u8]) -> bool) -> OperandParts {
        let text = self.0.as_bytes();
        if let Some(scheme) = remote_scheme(text).filter(|scheme| !is_image(scheme)) {
            return self.split_after(scheme.len() + "://".len());
        }
        if is_oci(Path::new(&self.0)) {
            let prefix = text.iter().position(|byte| *byte == b':');
            return self.split_after(prefix.map_or(0, |colon| colon + 1));
        }
        let colons: Vec<usize> = (0..text.len())
            .filter(|at| text[*at..].starts_with(b":/"))
            .collect();
        let whole = || OperandParts {
            image: self.0.clone(),
            path: None,
        };
        let found = colons.iter().rev().find(|at| is_image(&text[..**at]));
        match (found, colons.last()) {
            // An existing file of exactly this name has precedence.
            (None, _) if is_image(text) => whole(),
            (Some(at), _) | (None, Some(at)) => OperandParts {
                image: OsString::from_vec(text[..*at].to_vec()),
                path: Some(text[at + 1..].to_vec()),
            },
            (None, None) => self.split_relative(is_image).unwrap_or_else(whole),
        }
    }

    /// Splits the name of an image that isn't a file at its last `:/` from this byte on.
    fn split_after(&self, first: usize) -> OperandParts {
        let text = self.0.as_bytes();
        let mut colons = (first..text.len()).rev();
        let found = colons.find(|at| text[*at..].starts_with(b":/"));
        let end = found.unwrap_or(text.len());
        OperandParts {
            image: OsString::from_vec(text[..end].to_vec()),
            path: found.map(|at| text[at + 1..].to_vec()),
        }
    }

    /// Splits an operand such as `disk.img:etc/fstab`, whose path lacks its slash.
    fn split_relative(&self, is_image: impl Fn(&[u8]) -> bool) -> Option<OperandParts> {
        let text = self.0.as_bytes();
        let mut colons = (0..text.len()).rev().filter(|&at| text[at] == b':');
        let at = colons.find(|&at| is_image(&text[..at]))?;
        Some(OperandParts {
            image: OsString::from_vec(text[..at].to_vec()),
            path: Some([b"/", &text[at + 1..]].concat()),
        })
    }
}

/// Returns the scheme of a remote image, such as `https://...`.
fn remote_scheme(text: &[u8]) -> Option<&[u8]> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+';
    let end = text.iter().take_while(|&byte| is_letter(byte)).count();
    let (scheme, rest) = text.split_at(end);
    (!scheme.is_empty() && rest.starts_with(b"://")).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, files: &[&str]) -> (String, Option<String>) {
        let parts =
            Operand(text.into()).split_by(|image| files.iter().any(|f| f.as_bytes() == image));
        let path = parts.path.map(|path| String::from_utf8(path).unwrap());
        (parts.image.into_string().unwrap(), path)
    }

    #[test]
    fn an_image_alone_has_no_path() {
        let alone = |text: &str| Operand(text.into()).image_alone("to serve");
        assert_eq!(alone("disk.qcow2").unwrap(), "disk.qcow2");
        let error = alone("disk.qcow2:/etc").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.reason(),
            "expected an image to serve, not a path in it"
        );
    }

    #[test]
    fn the_last_colon_before_a_slash_counts() {
        for (text, files, image, path) in [
            ("a.img", &["a.img"][..], "a.img", None),
            ("a.img:/etc", &["a.img"], "a.img", Some("/etc")),
            ("a.img:/", &[], "a.img", Some("/")),
            ("a:b.img:/etc", &[], "a:b.img", Some("/etc")),
            ("/x:/a.img:/etc", &[], "/x:/a.img", Some("/etc")),
            (
                "a.img,snapshot=b:/etc",
                &[],
                "a.img,snapshot=b",
                Some("/etc"),
            ),
            ("a.img:etc", &[], "a.img:etc", None),
            ("a.img:etc/fstab", &["a.img"], "a.img", Some("/etc/fstab")),
            ("a.img:", &["a.img"], "a.img", Some("/")),
            ("a.img:etc", &["a.img", "a.img:etc"], "a.img:etc", None),
            ("https://host/a.img", &[], "https://host/a.img", None),
            ("vm1://etc", &["vm1"], "vm1", Some("//etc")),
            ("oci-layout:/a/dir", &[], "oci-layout:/a/dir", None),
            (
                "oci-layout:/a:41:/etc",
                &[],
                "oci-layout:/a:41",
                Some("/etc"),
            ),
            (
                "oci-layout:a#/disk/b:/etc",
                &[],
                "oci-layout:a#/disk/b",
                Some("/etc"),
            ),
        ] {
            assert_eq!(
                split(text, files),
                (image.into(), path.map(Into::into)),
                "{text}"
            );
        }
    }

    #[test]
    fn unless_only_another_one_makes_a_file() {
        let image = |text, files: &[&str]| split(text, files);
        assert_eq!(
            image("a.img:/odd:/name", &["a.img"]),
            ("a.img".into(), Some("/odd:/name".into()))
        );
        assert_eq!(image("d:/a.img", &["d:/a.img"]), ("d:/a.img".into(), None));
    }
}
