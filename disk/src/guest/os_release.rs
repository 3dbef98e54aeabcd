//! `/etc/os-release`, as os-release(5) has it.

use crate::Filesystem;
use diskfs_etc::shell::assignments;

const MAX_BYTES: u64 = 64 << 10;

/// What an operating system calls itself. Empty where it doesn't say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsRelease {
    /// In one word: `debian`.
    pub id: String,
    /// `12`.
    pub version_id: String,
    /// For people: `Debian GNU/Linux 12 (bookworm)`.
    pub pretty_name: String,
}

impl OsRelease {
    /// Reads the os-release of a system's tree.
    pub fn read(filesystem: &Filesystem) -> Self {
        let places = ["/etc/os-release", "/usr/lib/os-release"];
        let mut texts = places
            .iter()
            .filter_map(|place| filesystem.read_at_most(place, MAX_BYTES).ok());
        texts
            .next()
            .map(|text| Self::parse(&text))
            .unwrap_or_default()
    }

    fn parse(text: &[u8]) -> Self {
        let mut found = Self::default();
        let text = String::from_utf8_lossy(text);
        for (_, name, value) in assignments(&text) {
            match name {
                "ID" => found.id = value,
                "VERSION_ID" => found.version_id = value,
                "PRETTY_NAME" => found.pretty_name = value,
                _ => {}
            }
        }
        found
    }

    /// A name for a directory: `debian-12`; `linux` when it says nothing.
    pub(super) fn short_name(&self) -> String {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let word = |text: &str| text.chars().filter(is_plain).take(32).collect::<String>();
        match (word(&self.id), word(&self.version_id)) {
            (id, _) if id.is_empty() => "linux".to_owned(),
            (id, version) if version.is_empty() => id,
            (id, version) => format!("{id}-{version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_in_a_shell() {
        let text =
            b"# c\nID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='It'\nPRETTY_NAME=\"a \\\"b\\\"\"\n";
        let found = OsRelease::parse(text);
        assert_eq!(found.pretty_name, "a \"b\"");
        assert_eq!(found.short_name(), "debian-12");
        let odd = OsRelease {
            id: "../x".to_owned(),
            ..OsRelease::default()
        };
        assert_eq!(odd.short_name(), "..x");
        assert_eq!(OsRelease::default().short_name(), "linux");
    }
}
