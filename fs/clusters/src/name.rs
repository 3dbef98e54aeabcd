//! Checks of the names that callers give for files.

use diskfs_vfs::{Error, ErrorKind, Result};

/// The length of the longest name in UTF-16 units (fatgen103, "FAT Long Directory Entries"; exFAT
/// specification, 7.6.3).
pub const MAX_NAME_UNITS: usize = 255;

/// A valid name for a file. Dots at the end are removed, as Windows and Linux do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewName {
    /// The name as a listing will show it.
    pub text: String,
    /// The name in UTF-16 units.
    pub units: Vec<u16>,
    /// The case-folded name: equal for names that differ in case alone.
    pub key: Vec<u16>,
}

impl NewName {
    /// Checks a name for a file on `filesystem`, whose case folding is `fold`.
    ///
    /// # Errors
    /// `Invalid` for a name that no file can have, `NameTooLong`.
    pub fn new(name: &[u8], filesystem: &str, fold: impl Fn(&[u16]) -> Vec<u16>) -> Result<Self> {
        let refused = |reason: String| Err(Error::new(ErrorKind::Invalid, reason));
        let Ok(text) = std::str::from_utf8(name) else {
            return refused(format!("invalid name for {filesystem}: not valid UTF-8"));
        };
        if text.chars().any(|c| c < ' ' || "\"*/:<>?\\|".contains(c)) {
            let what = "control characters and \" * / : < > ? \\ | are not allowed";
            return refused(format!("invalid name for {filesystem}: {what}"));
        }
        let text = text.trim_end_matches('.');
        let units: Vec<u16> = text.encode_utf16().collect();
        if units.is_empty() {
            return refused(format!("invalid name for {filesystem}: it has only dots"));
        }
        if units.len() > MAX_NAME_UNITS {
            return Err(ErrorKind::NameTooLong.into());
        }
        Ok(Self {
            text: text.to_owned(),
            key: fold(&units),
            units,
        })
    }
}

/// Returns the keys with which to look up a name: as given, and without dots at its end.
pub(crate) fn keys_to_find(
    name: &[u8],
    fold: impl Fn(&[u16]) -> Vec<u16>,
) -> [Option<Vec<u16>>; 2] {
    let Ok(text) = std::str::from_utf8(name) else {
        return [None, None];
    };
    let key = |text: &str| fold(&text.encode_utf16().collect::<Vec<_>>());
    let trimmed = text.trim_end_matches('.');
    let is_trimmed = trimmed.len() < text.len();
    [Some(key(text)), is_trimmed.then(|| key(trimmed))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(units: &[u16]) -> Vec<u16> {
        units.iter().map(|unit| unit & !0x20).collect()
    }

    #[test]
    fn refuses_what_no_name_has() {
        let new = |name: &[u8]| NewName::new(name, "FAT", fold);
        for name in [
            &b"a:b"[..],
            b"a\\b",
            b"a\x01",
            b"...",
            b"\xff",
            b"what?",
            b"",
        ] {
            assert_eq!(new(name).unwrap_err().kind(), ErrorKind::Invalid);
        }
        let long = new(&[b'a'; 256]).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::NameTooLong);
        let name = new(b"a. b..").unwrap();
        assert_eq!(name.units, [97, 46, 32, 98]);
        assert_eq!(keys_to_find(b"A. B.", fold)[1].as_ref(), Some(&name.key));
        assert_eq!(keys_to_find(b"\xff", fold), [None, None]);
    }
}
