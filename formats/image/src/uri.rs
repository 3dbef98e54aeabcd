//! The names of images on other machines.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use diskfs_block::{Error, Result};
use diskfs_oci::RegistryName;

/// The hint for an image on another machine.
const REMOTE_HINT: &str = "download it first, or have nbdkit export it by NBD, for example with its plugin ssh: \
                           `nbdkit --unix SOCKET ssh ...`, then `nbd+unix:///?socket=SOCKET`";

/// The schemes of the images that a caller can open on other machines: of NBD, of HTTP, of object
/// stores and of OCI registries.
const SCHEMES: [&str; 13] = [
    "nbd",
    "nbd+tcp",
    "nbd+unix",
    "nbds",
    "nbds+tcp",
    "nbds+unix",
    "http",
    "https",
    "s3",
    "gs",
    "az",
    "azure",
    "oci",
];

/// Returns the scheme of a remote path, as other programs spell it: `https://...`.
fn scheme_of(path: &[u8]) -> Option<&str> {
    let end = path.windows(3).position(|at| at == b"://")?;
    let scheme = std::str::from_utf8(path.get(..end)?).ok()?;
    let mut letters = scheme.bytes();
    let is_scheme = letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    is_scheme.then_some(scheme)
}

/// Returns the URI that a path is, if its scheme is known.
pub(crate) fn of(path: &Path) -> Option<&str> {
    let scheme = scheme_of(path.as_os_str().as_bytes())?;
    path.to_str().filter(|_| SCHEMES.contains(&scheme))
}

/// Refuses a URI, where a file is needed.
pub(crate) fn refuse(path: &Path) -> Result<()> {
    if of(path).is_none() {
        return Ok(());
    }
    let reason = "this needs an image in a file, not on another machine";
    Err(Error::unsupported(reason).in_file(path))
}

/// Refuses the URIs of unknown schemes.
pub(crate) fn refuse_unknown(path: &[u8]) -> Result<()> {
    let scheme = scheme_of(path).filter(|scheme| !SCHEMES.contains(scheme));
    let Some(scheme) = scheme else {
        return Ok(());
    };
    let reason = format!("images on other machines are not supported: {scheme}://");
    Err(Error::unsupported(reason)
        .in_file(Path::new(OsStr::from_bytes(path)))
        .with_hint(REMOTE_HINT))
}

/// Returns a URI for messages: without user, password, query and fragment, which may be secret. Those
/// of NBD have no secrets; the fragment of an OCI image is the path of its disk.
pub(crate) fn shown(uri: &str) -> String {
    if uri.starts_with("nbd") {
        return uri.to_owned();
    }
    let secret: &[char] = if RegistryName::is_uri(uri) {
        &['?']
    } else {
        &['?', '#']
    };
    let end = uri.find(secret).unwrap_or(uri.len());
    let shown = uri.get(..end).unwrap_or_default();
    let Some((scheme, rest)) = shown.split_once("://") else {
        return shown.to_owned();
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(host_end).unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (uri, expected) in [
            ("https://a.org/d.qcow2", "https://a.org/d.qcow2"),
            ("https://a.org/d?sig=1#x", "https://a.org/d"),
            ("https://u:p@a.org:8/d@e", "https://a.org:8/d@e"),
            ("https://u:p@a.org", "https://a.org"),
            ("s3://bucket/key", "s3://bucket/key"),
            ("nbd+unix:///x?socket=a", "nbd+unix:///x?socket=a"),
            ("oci://a.org/b:1#/disk/c", "oci://a.org/b:1#/disk/c"),
            ("oci://u:p@a.org/b@sha256:0", "oci://a.org/b@sha256:0"),
        ] {
            assert_eq!(shown(uri), expected);
        }
    }
}
