//! Stems: the first directories of a path, by which specifications are indexed.

/// The maximum number of directories in a stem, as in libselinux since 3.8. It decides which paths
/// a pattern is tried on, so it cannot be tuned.
const MAX_DEPTH: usize = 3;

/// Returns the stem of a pattern: its first directories, as far as they are literal.
pub(crate) fn of_pattern(pattern: &str) -> Vec<u8> {
    let mut stem = Vec::new();
    let mut depth: usize = 0;
    // Patterns start with a slash; any other first character is not part of a directory.
    let mut rest = pattern.as_bytes().get(1..).unwrap_or_default();
    while depth < MAX_DEPTH
        && let Some(end) = rest.iter().position(|byte| *byte == b'/')
        && let Some((name, below)) = rest.split_at_checked(end)
    {
        rest = below.get(1..).unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let Some(name) = literal(name) else {
            break;
        };
        stem.push(b'/');
        stem.extend(name);
        depth = depth.saturating_add(1);
    }
    stem
}

/// Returns the stems of a path, the longest first.
pub(crate) fn of_path(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut ends: Vec<usize> = slashes
        .map(|(at, _)| at)
        .take(MAX_DEPTH.saturating_add(1))
        .collect();
    // A path with an empty component has no stems from there on, and a relative path has none.
    let broken = (1..)
        .zip(ends.array_windows())
        .find(|(_, [a, b])| a.abs_diff(*b) == 1);
    ends.truncate(broken.map_or(ends.len(), |(keep, _)| keep));
    if !path.starts_with(b"/") {
        ends.clear();
    }
    let is_empty = ends.is_empty();
    let stems = ends.into_iter().rev().filter_map(|end| path.get(..end));
    stems.chain(is_empty.then_some(b"".as_slice()))
}

/// Returns the bytes that a pattern without special characters matches; `None` for other patterns.
pub(crate) fn literal(pattern: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(pattern.len());
    let mut rest = pattern.iter();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'\\' => *rest.next().filter(|byte| is_escapable(**byte))?,
            byte if is_special(*byte) => return None,
            byte => *byte,
        };
        bytes.push(byte);
    }
    Some(bytes)
}

const fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b'.' | b'^' | b'$' | b'?' | b'*' | b'+' | b'|' | b'[' | b'(' | b'{' | b']' | b')' | b'}'
    )
}

/// Returns true if a backslash before this byte makes it literal. Any other escape makes the
/// pattern a regular expression.
const fn is_escapable(byte: u8) -> bool {
    is_special(byte) || matches!(byte, b'-' | b'_' | b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem(pattern: &str) -> String {
        String::from_utf8(of_pattern(pattern)).unwrap()
    }

    fn stems(path: &str) -> Vec<&str> {
        let stems = of_path(path.as_bytes());
        stems
            .map(|stem| std::str::from_utf8(stem).unwrap())
            .collect()
    }

    #[test]
    fn stems_of_patterns() {
        assert_eq!(stem("/.*"), "");
        assert_eq!(stem("/etc(/.*)?"), "");
        assert_eq!(stem("/etc/.*"), "/etc");
        assert_eq!(stem("/usr/lib/a\\.d/x/.*"), "/usr/lib/a.d");
        assert_eq!(stem("/usr/(.*/)?bin/x.*"), "/usr");
        assert_eq!(stem("/opt//x/.*"), "/opt/x");
        assert_eq!(stem("/usr/?x"), "/usr");
        assert_eq!(stem("/a\\/b.*"), "");
        assert_eq!(stem(""), "");
        assert_eq!(stem(".*/x"), "");
    }

    #[test]
    fn stems_of_paths() {
        assert_eq!(stems("/"), [""]);
        assert_eq!(stems("/x"), [""]);
        assert_eq!(stems("/etc/x"), ["/etc", ""]);
        assert_eq!(stems("/a/b/c/d/e"), ["/a/b/c", "/a/b", "/a", ""]);
        assert_eq!(stems("/a//b/c"), ["/a", ""]);
        assert_eq!(stems("//b/c"), [""]);
        assert_eq!(stems("b/c"), [""]);
        assert_eq!(stems(""), [""]);
    }

    #[test]
    fn literals() {
        assert_eq!(literal(b"/a\\.b\\-c"), Some(b"/a.b-c".to_vec()));
        assert_eq!(literal(b"/a\\d"), None);
        assert_eq!(literal(b"/a."), None);
        assert_eq!(literal(b"/a}"), None);
        assert_eq!(literal(b"/a\\"), None);
    }
}
