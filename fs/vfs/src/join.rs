//! Concatenation of paths.

/// Returns `name` below `dir`, with one slash between them. If one is empty, returns the other
/// unchanged.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match (dir, name) {
        (dir, b"") => dir.to_vec(),
        (b"", name) => name.to_vec(),
        (dir, name) if dir.ends_with(b"/") => [dir, name].concat(),
        (dir, name) => [dir, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_with_one_slash() {
        assert_eq!(join(b"/", b"etc"), b"/etc");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"/a", b""), b"/a");
        assert_eq!(join(b"", b"b"), b"b");
    }
}
