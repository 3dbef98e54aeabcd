//! The identifiers of files and directories in the two trees of a volume.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Child, Directory};

/// The lengths of a file name and its extension at level 1 (ECMA-119, 10.1), which every system
/// reads.
const NAME_BYTES: usize = 8;
const EXTENSION_BYTES: usize = 3;

/// The tree whose identifiers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The plain identifiers of the standard, with Rock Ridge.
    Plain,
    /// The identifiers of Joliet, in UCS-2.
    Joliet,
}

impl Names {
    /// Returns the entries of a directory by their identifiers, in the order of the standard (9.3).
    pub(super) fn entries(self, directory: &Directory) -> BTreeMap<Vec<u8>, (&str, Child)> {
        let mut taken = BTreeSet::new();
        let mut entries = BTreeMap::new();
        for (name, child) in &directory.children {
            let is_file = matches!(child, Child::File(_));
            let identifier = match self {
                Self::Plain => plain(name, is_file, &mut taken),
                Self::Joliet => ucs2(name),
            };
            entries.insert(identifier, (name.as_str(), *child));
        }
        entries
    }
}

/// Returns an identifier of level 1 that is not taken yet.
fn plain(name: &str, is_file: bool, taken: &mut BTreeSet<Vec<u8>>) -> Vec<u8> {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if is_file => (stem, extension),
        _ => (name, ""),
    };
    let stem = d_characters(stem);
    let extension = d_characters(extension);
    let extension = extension.get(..EXTENSION_BYTES).unwrap_or(&extension);
    let identifier = |number: usize| {
        // The first is as it is; others end in their number.
        let suffix = match number {
            0 => String::new(),
            number => format!("{number:03}"),
        };
        let kept = NAME_BYTES.saturating_sub(suffix.len());
        let stem = stem.get(..kept).unwrap_or(&stem);
        let end = if is_file {
            format!(".{extension};1")
        } else {
            String::new()
        };
        format!("{stem}{suffix}{end}").into_bytes()
    };
    let mut candidates = (0..).map(identifier);
    let free = candidates.find(|candidate| !taken.contains(candidate));
    let free = free.unwrap_or_default();
    taken.insert(free.clone());
    free
}

/// Converts a name to d-characters (7.4.1).
fn d_characters(name: &str) -> String {
    let convert = |character: char| match character.to_ascii_uppercase() {
        upper if upper.is_ascii_alphanumeric() => upper,
        _ => '_',
    };
    name.chars().map(convert).collect()
}

/// Converts ASCII to UCS-2.
pub(super) fn ucs2(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_identifiers_are_short_and_unique() {
        let mut taken = BTreeSet::new();
        let mut of = |name, is_file| String::from_utf8(plain(name, is_file, &mut taken)).unwrap();
        assert_eq!(of("meta-data", true), "META_DAT.;1");
        assert_eq!(of("network_data.json", true), "NETWORK_.JSO;1");
        assert_eq!(of("network_more.json", true), "NETWO001.JSO;1");
        assert_eq!(of("network_most.json", true), "NETWO002.JSO;1");
        assert_eq!(of("openstack", false), "OPENSTAC");
        assert_eq!(of("a.b.c", true), "A_B.C;1");
        assert_eq!(of(".hidden", true), ".HID;1");
    }
}
