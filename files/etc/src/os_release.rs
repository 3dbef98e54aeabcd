//! `/etc/os-release` in the format of os-release(5): assignments in shell syntax.

use crate::shell::assigned;

/// The paths of the file. The first one that exists counts.
pub const PLACES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// The text of an os-release file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsRelease {
    text: String,
}

impl OsRelease {
    /// Creates the value from the text of the file.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Returns the line number, counted from 1, and the value of a name such as `ID`. The last line
    /// that sets the name counts. An empty value counts as missing.
    pub fn get(&self, name: &str) -> Option<(usize, String)> {
        assigned(&self.text, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_in_a_shell() {
        let release = OsRelease::new(
            "# c\nID=debian\nNAME='It'\nNAME=\"a \\\"b\\\"\"\nVERSION_ID=12\nVERSION_ID=\n",
        );
        assert_eq!(release.get("ID"), Some((2, "debian".to_owned())));
        assert_eq!(release.get("NAME"), Some((4, "a \"b\"".to_owned())));
        assert_eq!(release.get("VERSION_ID"), None);
    }
}
