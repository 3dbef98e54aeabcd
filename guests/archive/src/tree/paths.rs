//! Names of members as paths from the root of the tree.

use diskfs_vfs::{Error, ErrorKind, Result};

/// The limit on the length of a path, Linux's `PATH_MAX`.
const PATH_MAX_BYTES: usize = 4096;

/// The limit on the length of a name, Linux's `NAME_MAX`.
const NAME_MAX_BYTES: usize = 255;

/// Converts a member's name to a path without `.` and repeated slashes; the root is empty. In
/// layers of images absolute names start at the root, as in containerd; other archives may not have
/// them.
///
/// # Errors
/// `Denied` for a name with `..` or an absolute one; `NameTooLong`; `Invalid` for a zero byte.
pub(super) fn plain(name: &[u8], is_of_image: bool) -> Result<Vec<u8>> {
    let denied = |reason: &'static str| Err(Error::new(ErrorKind::Denied, reason));
    if name.starts_with(b"/") && !is_of_image {
        return denied("refusing an absolute name in the archive");
    }
    if name.contains(&0) {
        let reason = "invalid name in the archive: it contains a zero byte";
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    let mut path = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return denied("refusing a name with `..` in the archive"),
            part if part.len() > NAME_MAX_BYTES => return Err(ErrorKind::NameTooLong.into()),
            part => {
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(part);
            }
        }
    }
    if path.len() > PATH_MAX_BYTES {
        return Err(ErrorKind::NameTooLong.into());
    }
    Ok(path)
}

/// Splits a path into the directory and the name in it; `None` for the root.
pub(super) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    let mut parts = path.rsplitn(2, |byte| *byte == b'/');
    let name = parts.next()?;
    Some((parts.next().unwrap_or_default(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_tree() {
        for (name, path) in [("./a//b/", "a/b"), ("a", "a"), ("./", ""), ("...", "...")] {
            assert_eq!(plain(name.as_bytes(), false).unwrap(), path.as_bytes());
        }
        assert_eq!(plain(b"/a", true).unwrap(), b"a");
        let long = "x".repeat(256);
        let deep = "x/".repeat(2100);
        for (name, kind) in [
            ("/a", ErrorKind::Denied),
            ("a/..", ErrorKind::Denied),
            ("a\0", ErrorKind::Invalid),
            (&long, ErrorKind::NameTooLong),
            (&deep, ErrorKind::NameTooLong),
        ] {
            let error = plain(name.as_bytes(), false).unwrap_err();
            assert_eq!(error.kind(), kind, "{name}");
        }
        assert_eq!(split(b"a/b/c"), Some((&b"a/b"[..], &b"c"[..])));
        assert_eq!(split(b"c"), Some((&b""[..], &b"c"[..])));
        assert_eq!(split(b""), None);
    }
}
