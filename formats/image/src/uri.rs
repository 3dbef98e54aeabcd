//! The names of images on other machines.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use diskfs_block::{Error, Result};

/// The hint for an image on another machine.
const REMOTE_HINT: &str = "download it first, or have nbdkit export it by NBD, with its plugins curl and ssh: \
                           `nbdkit --unix SOCKET curl URL`, then `nbd+unix:///?socket=SOCKET`";

/// The schemes of NBD's URIs.
const NBD_SCHEMES: [&str; 4] = ["nbd", "nbds", "nbd+unix", "nbds+unix"];

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

/// Returns the URI that a path is, if it is one of NBD.
pub(crate) fn nbd(path: &Path) -> Option<&str> {
    let scheme = scheme_of(path.as_os_str().as_bytes())?;
    path.to_str().filter(|_| NBD_SCHEMES.contains(&scheme))
}

/// Refuses a URI of NBD, where a file is needed.
pub(crate) fn refuse_nbd(path: &Path) -> Result<()> {
    if nbd(path).is_none() {
        return Ok(());
    }
    let reason = "this needs an image in a file, not an export of NBD";
    Err(Error::unsupported(reason).in_file(path))
}

/// Refuses all URIs but those of NBD.
pub(crate) fn refuse_others(path: &[u8]) -> Result<()> {
    let scheme = scheme_of(path).filter(|scheme| !NBD_SCHEMES.contains(scheme));
    let Some(scheme) = scheme else {
        return Ok(());
    };
    let reason = format!("images on other machines are not supported: {scheme}://");
    Err(Error::unsupported(reason)
        .in_file(Path::new(OsStr::from_bytes(path)))
        .with_hint(REMOTE_HINT))
}
