//! The names of images in registries, and of their parts (OCI distribution specification, "Pulling
//! manifests").

use std::fmt;

use diskfs_block::{Error, Result};

use crate::digest::Digest;
use crate::message::shortened;

const SCHEME: &str = "oci://";

/// The longest name of a repository, with which registries still make URLs.
const REPOSITORY_MAX_CHARS: usize = 255;
/// The longest tag.
const TAG_MAX_CHARS: usize = 128;

/// The tag or the digest of an image in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryReference {
    /// A tag, which may be moved to another image.
    Tag(String),
    /// The digest of the manifest or the index.
    Digest(Digest),
}

impl RegistryReference {
    /// Returns the digest, if it is one.
    pub const fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Tag(_) => None,
            Self::Digest(digest) => Some(digest),
        }
    }
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

/// The name of an image in a registry: `oci://REGISTRY/REPOSITORY[:TAG|@DIGEST][#/disk/PATH]`. All
/// parts have only characters that need no escapes in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryName {
    /// The host of the registry, with its port.
    pub host: String,
    /// The repository.
    pub repository: String,
    /// The tag, `latest` by default, or the digest, which counts if there are both.
    pub reference: RegistryReference,
    /// The path of the disk in the image, or its name in an artifact.
    pub disk: Option<String>,
}

impl RegistryName {
    /// Returns true for a text that begins with the scheme of registries.
    pub fn is_uri(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Parses a name.
    ///
    /// # Errors
    /// `Invalid` for a text that is not such a name; `Unsupported` for an unknown digest.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |what: &str| {
            let reason = format!("invalid name of an image in a registry: {what}");
            let error = Error::invalid(reason);
            error.with_hint("expected oci://REGISTRY/REPOSITORY:TAG")
        };
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (named, disk) = match rest.split_once('#') {
            Some((named, disk)) => (named, Some(disk)),
            None => (rest, None),
        };
        let (host, named) = named
            .split_once('/')
            .ok_or_else(|| invalid("missing repository"))?;
        if host.contains('@') {
            let error = Error::invalid("the URI contains a user or a password, which `ps` shows");
            return Err(error.with_hint("log in with `docker login`, or add a section to its file"));
        }
        if !is_host(host) {
            return Err(invalid(&format!("host `{}`", shortened(host))));
        }
        let (named, digest) = match named.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (named, None),
        };
        let (repository, tag) = named.split_once(':').unwrap_or((named, "latest"));
        let names = repository.split('/');
        if repository.len() > REPOSITORY_MAX_CHARS || !names.clone().all(is_component) {
            return Err(invalid(&format!("repository `{}`", shortened(repository))));
        }
        if !is_tag(tag) {
            return Err(invalid(&format!("tag `{}`", shortened(tag))));
        }
        let reference = match digest.map(Digest::parse) {
            None => RegistryReference::Tag(tag.to_owned()),
            Some(Ok(digest)) => RegistryReference::Digest(digest),
            Some(Err(error)) => return Err(Error::invalid(error.reason().to_owned())),
        };
        Ok(Self {
            host: host.to_owned(),
            repository: repository.to_owned(),
            reference,
            disk: disk.filter(|disk| !disk.is_empty()).map(Into::into),
        })
    }
}

/// A part of an image that a registry has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegistryPart {
    /// The manifest or the index that the name refers to.
    Root,
    /// The manifest or the index with this digest.
    Manifest(Digest),
    /// The blob with this digest.
    Blob(Digest),
}

impl RegistryPart {
    /// Parses what [`fmt::Display`] writes.
    ///
    /// # Errors
    /// `Corrupt` or `Unsupported` for another text.
    pub fn parse(text: &str) -> Result<Self> {
        match text.split_once('/') {
            Some(("manifests", digest)) => Digest::parse(digest).map(Self::Manifest),
            Some(("blobs", digest)) => Digest::parse(digest).map(Self::Blob),
            _ if text == "root" => Ok(Self::Root),
            _ => Err(Error::corrupt("invalid part of an image in a registry")),
        }
    }
}

impl fmt::Display for RegistryPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Manifest(digest) => write!(f, "manifests/{digest}"),
            Self::Blob(digest) => write!(f, "blobs/{digest}"),
        }
    }
}

/// Returns true for the name of a host or its address, with or without a port.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
            if address.is_empty() || !address.bytes().all(is_hex) {
                return false;
            }
            (
                "address",
                port.strip_prefix(':').or(port.is_empty().then_some("0")),
            )
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("0")),
        },
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let is_name = !name.is_empty() && name.bytes().all(is_letter);
    let is_digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    is_name && port.is_some_and(|port| is_digits(port) && port.parse::<u16>().is_ok())
}

/// Returns true for a part of a repository's name: letters in lower case and digits, with separators
/// between them.
fn is_component(name: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_allowed = |byte: u8| is_letter(&byte) || matches!(byte, b'.' | b'_' | b'-');
    let ends = [name.as_bytes().first(), name.as_bytes().last()];
    let ends_well = ends.iter().all(|end| end.is_some_and(is_letter));
    ends_well && name.bytes().all(is_allowed) && !name.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_allowed = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'-');
    let first = tag.bytes().next();
    first.is_some_and(is_word) && tag.len() <= TAG_MAX_CHARS && tag.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn names_are_parsed_strictly() {
        let digest = format!("@{DIGEST}");
        for (text, host, repository, reference, disk) in [
            ("quay.io/a/b:v1", "quay.io", "a/b", "v1", None),
            ("localhost:5000/a", "localhost:5000", "a", "latest", None),
            ("[::1]:5000/a", "[::1]:5000", "a", "latest", None),
            ("[::1]/a-b__c", "[::1]", "a-b__c", "latest", None),
            (&format!("q.io/a:v{digest}"), "q.io", "a", DIGEST, None),
            ("q.io/a:v#/disk/x:y", "q.io", "a", "v", Some("/disk/x:y")),
        ] {
            let name = RegistryName::parse(&format!("oci://{text}")).unwrap();
            assert_eq!(
                (&*name.host, &*name.repository),
                (host, repository),
                "{text}"
            );
            assert_eq!(name.reference.to_string(), reference, "{text}");
            assert_eq!(name.disk.as_deref(), disk, "{text}");
        }
        for bad in [
            "",
            "host",
            "/a",
            "host/",
            "host/A",
            "host/a//b",
            "host/../b",
            "host/a:",
            "host/a:-",
            "host/a?x",
            "host/a%2f",
            "ho st/a",
            "host:x/a",
            "host:70000/a",
            "u:p@host/a",
            "[::1/a",
            "[::1]x/a",
            "host/a@sha256:00",
            "host/a/",
            "host/.a",
            "host/a..b",
        ] {
            let found = RegistryName::parse(&format!("oci://{bad}"));
            assert!(found.is_err(), "{bad}: {found:?}");
        }
    }

    #[test]
    fn parts_are_written_and_parsed() {
        let digest = || Digest::parse(DIGEST).unwrap();
        for part in [
            RegistryPart::Root,
            RegistryPart::Manifest(digest()),
            RegistryPart::Blob(digest()),
        ] {
            assert_eq!(RegistryPart::parse(&part.to_string()).unwrap(), part);
        }
        assert!(RegistryPart::parse("blobs/../root").is_err());
    }
}
