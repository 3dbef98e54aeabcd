//! The version of the program, as `diskfs --version` prints it.

use std::ffi::OsString;
use std::io::Write as _;

/// The features that can be left out of the program.
const FEATURES: [(&str, bool); 7] = [
    ("fuse", cfg!(feature = "fuse")),
    ("microvm", cfg!(feature = "microvm")),
    ("serve", cfg!(feature = "serve")),
    ("nbd", cfg!(feature = "nbd")),
    ("objects", cfg!(feature = "objects")),
    ("vhost-user", cfg!(feature = "vhost-user")),
    ("browse", cfg!(feature = "browse")),
];

/// Prints the version and returns true if that is all that these words ask for. The definition of
/// all commands, which takes milliseconds, is not needed for it.
pub(crate) fn is_answered(words: &[OsString]) -> bool {
    let text = match words {
        [_, word] if word == "--version" => long(),
        [_, word] if word == "-V" => short(),
        _ => return false,
    };
    let _ = std::io::stdout().write_all(text.as_bytes()); // A failure here cannot be reported.
    true
}

fn short() -> String {
    format!("diskfs {}\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the version, the commit if the build set `DISKFS_COMMIT`, and the features.
fn long() -> String {
    let commit = option_env!("DISKFS_COMMIT").filter(|commit| !commit.is_empty());
    let commit = commit.map(|commit| format!("commit: {commit}\n"));
    let features = FEATURES
        .iter()
        .filter(|(_, has)| *has)
        .map(|(name, _)| *name);
    let features: Vec<&str> = features.collect();
    let commit = commit.unwrap_or_default();
    format!("{}{commit}features: {}\n", short(), features.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_alone_is_answered() {
        let answered = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            is_answered(&words)
        };
        assert!(answered(&["diskfs", "-V"]));
        assert!(answered(&["diskfs", "--version"]));
        assert!(!answered(&["diskfs"]));
        assert!(!answered(&["diskfs", "--version", "x"]));
        assert!(!answered(&["diskfs", "ls", "--version"]));
    }

    #[test]
    fn the_first_line_is_the_short_version() {
        assert!(long().starts_with(&short()), "{}", long());
        assert!(long().contains("features: "), "{}", long());
    }
}
