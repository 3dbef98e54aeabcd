//! Names that callers give.

use diskfs_vfs::{Error, ErrorKind, Result};

/// The longest name, in units of UTF-16 (fatgen103, "FAT Long Directory Entries"; exFAT specification,
/// 7.6.3).
pub const MAX_NAME_UNITS: usize = 255;

/// A name for a file, without the dots at its end, which Windows and Linux take away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewName {
    /// The name as it will be shown.
    pub text: String,
    /// The same in units of UTF-16.
    pub units: Vec<u16>,
    /// What it has in common with names that differ in case alone.
    pub key: Vec<u16>,
}

impl NewName {
    /// Checks a name for a file on `filesystem`, which folds case with `fold`.
    ///
    /// # Errors
    /// `Invalid` for what no file can be called, `NameTooLong`.
    pub fn new(name: &[u8], filesystem: &str, fold: impl Fn(&[u16]) -> Vec<u16>) -> Result<Self> {
        let refused = |reason: String| Err(Error::new(ErrorKind::Invalid, reason));
        let Ok(text) = std::str::from_utf8(name) else {
            let what = "is Unicode, and this one is not UTF-8";
            return refused(format!("a name on {filesystem} {what}"));
        };
        if text.chars().any(|c| c < ' ' || "\"*/:<>?\\|".contains(c)) {
            let what = "has control characters or any of \" * / : < > ? \\ |";
            return refused(format!("no name on {filesystem} {what}"));
        }
        let text = text.trim_end_matches('.');
        let units: Vec<u16> = text.encode_utf16().collect();
        if units.is_empty() {
            return refused(format!("a name on {filesystem} is more than dots"));
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

/// Returns the keys that a name is looked for by: as it is, and without dots at its end.
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
