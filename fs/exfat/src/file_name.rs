//! Names (exFAT specification, 7.7.3).

use crate::error::{Error, ErrorKind, Result};
use crate::upcase_table::UpcaseTable;

/// The longest name, in units of UTF-16 (7.6.3).
pub(crate) const MAX_UNITS: usize = 255;

/// A name that a file may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileName {
    units: Vec<u16>,
    key: Vec<u16>,
    hash: u16,
}

impl FileName {
    /// The name of a new file, without the dots at its end, which Windows and Linux take away.
    pub(crate) fn to_create(name: &[u8], upcase: &UpcaseTable) -> Result<Self> {
        let refused = |reason: &'static str| Err(Error::new(ErrorKind::Invalid, reason));
        let Ok(text) = std::str::from_utf8(name) else {
            return refused("a name on exFAT is Unicode, and this one is not UTF-8");
        };
        if text.chars().any(|c| c < ' ' || "\"*/:<>?\\|".contains(c)) {
            return refused(
                "no name on exFAT has control characters or any of \" * / : < > ? \\ |",
            );
        }
        let units: Vec<u16> = text.trim_end_matches('.').encode_utf16().collect();
        if units.is_empty() {
            return refused("a name on exFAT is more than dots");
        }
        if units.len() > MAX_UNITS {
            return Err(ErrorKind::NameTooLong.into());
        }
        Ok(Self {
            key: upcase.fold(&units),
            hash: upcase.name_hash(&units),
            units,
        })
    }

    pub(crate) fn units(&self) -> &[u16] {
        &self.units
    }

    /// What names that differ in case alone have in common.
    pub(crate) fn key(&self) -> &[u16] {
        &self.key
    }

    pub(crate) fn hash(&self) -> u16 {
        self.hash
    }
}

/// What a name is looked for by: as it is, and without dots at its end.
pub(crate) fn keys_to_find(name: &[u8], upcase: &UpcaseTable) -> [Option<Vec<u16>>; 2] {
    let Ok(text) = std::str::from_utf8(name) else {
        return [None, None];
    };
    let trimmed = text.trim_end_matches('.');
    [
        Some(key_of(text, upcase)),
        (trimmed.len() < text.len()).then(|| key_of(trimmed, upcase)),
    ]
}

/// The key of a name as it is shown.
pub(crate) fn key_of(shown: &str, upcase: &UpcaseTable) -> Vec<u16> {
    upcase.fold(&shown.encode_utf16().collect::<Vec<_>>())
}

/// A name of the device as it is shown; `None` for one that could lead out of its directory, or that
/// no program could say.
pub(crate) fn shown(units: &[u16]) -> Option<String> {
    let text = String::from_utf16_lossy(units);
    let sane = !matches!(text.as_str(), "" | "." | "..") && !text.contains(['/', '\0']);
    sane.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_no_name_has() {
        let table = UpcaseTable::recommended();
        let kind = |name: &[u8]| FileName::to_create(name, &table).unwrap_err().kind();
        for name in [
            &b"a:b"[..],
            b"a\\b",
            b"a\x01",
            b"...",
            b"\xff",
            b"what?",
            b"",
        ] {
            assert_eq!(kind(name), ErrorKind::Invalid);
        }
        assert_eq!(kind(&[b'a'; 256]), ErrorKind::NameTooLong);
        let name = FileName::to_create(b"a. b..", &table).unwrap();
        assert_eq!(name.units(), [97, 46, 32, 98]);
        assert_eq!(
            keys_to_find(b"A. B.", &table)[1].as_deref(),
            Some(name.key())
        );
    }

    #[test]
    fn a_hostile_name_is_not_shown() {
        for name in ["..", ".", "a/b", "", "a\0b"] {
            assert_eq!(shown(&name.encode_utf16().collect::<Vec<_>>()), None);
        }
        assert_eq!(shown(&[0xd800, 97]).unwrap(), "\u{fffd}a");
    }
}
