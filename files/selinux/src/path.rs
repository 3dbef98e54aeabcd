//! Normalisation of paths before a lookup.

use std::borrow::Cow;

/// Removes repeated slashes and a slash at the end.
pub(crate) fn cleaned(path: &[u8]) -> Cow<'_, [u8]> {
    let is_doubled = path.array_windows().any(|pair| pair == b"//");
    let mut path = if is_doubled {
        Cow::Owned(undoubled(path))
    } else {
        Cow::Borrowed(path)
    };
    if path.len() > 1 && path.ends_with(b"/") {
        match &mut path {
            Cow::Owned(path) => {
                path.pop();
            }
            Cow::Borrowed(path) => *path = path.strip_suffix(b"/").unwrap_or(path),
        }
    }
    path
}

fn undoubled(path: &[u8]) -> Vec<u8> {
    let mut cleaned = path.to_vec();
    cleaned.dedup_by(|next, before| *next == b'/' && *before == b'/');
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes() {
        for (path, expected) in [
            ("", ""),
            ("/", "/"),
            ("///", "/"),
            ("/etc", "/etc"),
            ("/etc/", "/etc"),
            ("//etc///x//", "/etc/x"),
            ("etc", "etc"),
        ] {
            assert_eq!(*cleaned(path.as_bytes()), *expected.as_bytes(), "{path}");
        }
    }
}
