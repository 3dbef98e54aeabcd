//! `/etc/os-release`, in the format of os-release(5).

use diskfs_etc::os_release;

use crate::Filesystem;

const MAX_BYTES: u64 = 64 << 10;

/// The names that an operating system gives itself. A field is empty if `os-release` lacks it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OsRelease {
    /// The identifier in one word: `debian`.
    pub id: String,
    /// The version: `12`.
    pub version_id: String,
    /// The name for people: `Debian GNU/Linux 12 (bookworm)`.
    pub pretty_name: String,
}

impl OsRelease {
    /// Reads the os-release file of a system's tree.
    pub fn read(filesystem: &Filesystem) -> Self {
        let texts = os_release::PLACES.iter().filter_map(|place| {
            let text = filesystem.read_at_most(place, MAX_BYTES).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        });
        let mut texts = texts.map(os_release::OsRelease::new);
        texts
            .next()
            .map(|found| Self::of(&found))
            .unwrap_or_default()
    }

    fn of(found: &os_release::OsRelease) -> Self {
        let value = |name| found.get(name).map(|(_, value)| value).unwrap_or_default();
        Self {
            id: value("ID"),
            version_id: value("VERSION_ID"),
            pretty_name: value("PRETTY_NAME"),
        }
    }

    /// Returns a name for a directory: `debian-12`; `linux` if the release is unknown.
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
            "# c\nID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='It'\nPRETTY_NAME=\"a \\\"b\\\"\"\n";
        let found = OsRelease::of(&os_release::OsRelease::new(text));
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
