//! The option `--exclude PATTERN` of commands that walk a tree.

use clap::Args;

use diskfs::vfs::glob::{Case, Pattern};

/// The option `--exclude`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ExcludeArgs {
    /// Skip files that match a shell pattern, and everything below them; can be repeated
    #[arg(long = "exclude", value_name = "PATTERN", value_parser = pattern)]
    patterns: Vec<Pattern>,
}

impl ExcludeArgs {
    /// Returns true if `path` is excluded: a pattern matches the whole path, or the part after any
    /// of its slashes, as in du(1) and tar(1).
    pub(crate) fn leaves_out(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let tails = slashes.filter_map(|(at, _)| path.get(at + 1..));
        let mut parts = std::iter::once(path)
            .chain(tails.filter(|tail| !tail.is_empty() && !tail.starts_with(b"/")));
        !self.patterns.is_empty()
            && parts.any(|part| self.patterns.iter().any(|pattern| pattern.matches(part)))
    }
}

/// Parses a pattern of the command line.
pub(crate) fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text, Case::Sensitive).map_err(|error| error.reason().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves_out(word: &str, path: &str) -> bool {
        let patterns = vec![pattern(word).unwrap()];
        ExcludeArgs { patterns }.leaves_out(path.as_bytes())
    }

    #[test]
    fn patterns_match_whole_names_anywhere() {
        // The expected results are those of `du --exclude`.
        for (word, path, out) in [
            ("*.o", "/a/b.o", true),
            ("*.o", "/a/b.oo", false),
            ("b", "/a/b", true),
            ("b", "/a/bb", false),
            ("/a", "/a", true),
            ("a/b", "/a/b", true),
            ("a*", "/x/abc/d", true),
            ("", "/a/", false),
        ] {
            assert_eq!(leaves_out(word, path), out, "{word} {path}");
        }
        assert!(!ExcludeArgs::default().leaves_out(b"/"));
    }
}
