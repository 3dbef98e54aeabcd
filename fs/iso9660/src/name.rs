//! The names of files as listings show them.

use crate::directory_record::DirectoryRecord;
use crate::error::{Result, corrupt};
use crate::rrip::{self, MAX_NAME_BYTES};
use crate::susp::SystemUse;

/// The source of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Rock Ridge. The first `skipped` bytes of each system use area do not belong to it.
    RockRidge { skipped: usize },
    /// The tree of the supplementary descriptor, with names in UCS-2.
    Joliet,
    /// The names of the standard, in lower case and without the version.
    Plain,
}

impl Names {
    /// Returns the name of a record. It is never empty, at most 255 bytes long, and has neither a
    /// slash nor NUL.
    pub(crate) fn of(self, record: &DirectoryRecord, system_use: &SystemUse) -> Result<Vec<u8>> {
        let from_rock_ridge = match self {
            Self::RockRidge { .. } => rrip::name(system_use, record.place)?,
            Self::Joliet | Self::Plain => None,
        };
        let name = match (from_rock_ridge, self) {
            (Some(name), _) => name,
            (None, Self::Joliet) => joliet(record.identifier()),
            (None, _) => plain(record.identifier()),
        };
        let is_no_name = name.is_empty()
            || name == b"."
            || name == b".."
            || name.len() > MAX_NAME_BYTES
            || name.iter().any(|byte| matches!(byte, b'/' | 0));
        if is_no_name {
            return Err(corrupt(
                "invalid directory record: the name is empty, too long or has a slash or NUL",
                record.place,
            ));
        }
        Ok(name)
    }
}

/// Converts a plain name as Linux does with `map=normal`: to lower case, without `;1` and the dot
/// before it.
fn plain(identifier: &[u8]) -> Vec<u8> {
    let name = identifier
        .strip_suffix(b".;1")
        .or_else(|| identifier.strip_suffix(b";1"))
        .unwrap_or(identifier);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |byte: &u8| match byte {
        b';' | b'/' => b'.',
        byte => byte.to_ascii_lowercase(),
    };
    name.iter().map(shown).collect()
}

/// Converts a Joliet name as Linux does: without `;1` and dots at the end.
fn joliet(identifier: &[u8]) -> Vec<u8> {
    let (units, _) = identifier.as_chunks::<2>();
    let units = units.iter().map(|unit| u16::from_be_bytes(*unit));
    let text: String = char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        // The two characters that no name can contain; the specification forbids both.
        .map(|letter| {
            if matches!(letter, '/' | '\0') {
                '_'
            } else {
                letter
            }
        })
        .collect();
    let name = match text.strip_suffix(";1") {
        Some(name) if !name.is_empty() => name,
        _ => &text,
    };
    let end = name.trim_end_matches('.').len().max(1);
    name.as_bytes().get(..end).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_lose_their_version() {
        for (recorded, shown) in [
            ("README.TXT;1", "readme.txt"),
            ("README.;1", "readme"),
            ("README", "readme"),
            ("A.B;2", "a.b.2"),
            ("A/B;1", "a.b"),
            ("DIR.EXT", "dir.ext"),
        ] {
            assert_eq!(plain(recorded.as_bytes()), shown.as_bytes(), "{recorded}");
        }
    }

    #[test]
    fn joliet_names_are_ucs2() {
        let shown = |text: &str| {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            String::from_utf8(joliet(&bytes)).unwrap()
        };
        assert_eq!(shown("Grüße €.txt;1"), "Grüße €.txt");
        assert_eq!(shown("name..."), "name");
        assert_eq!(shown(";1"), ";1");
        assert_eq!(shown("."), ".");
        assert_eq!(shown("a/b"), "a_b");
        assert_eq!(shown("😀"), "😀");
        assert_eq!(joliet(&[0, b'a', 0xd8, 0]), "a\u{fffd}".as_bytes());
    }
}
