//! Names that are looked up without regard to case.
//!
//! The kernel compares names under Unicode 12.1's canonical decomposition and full case folding.
//! Here case is folded by lower-casing each character and nothing is decomposed: `A` finds `a`, but
//! a precomposed letter does not find the same letter put together of two characters. The exact
//! name is always found.

use std::borrow::Cow;

use crate::error::{Error, ErrorKind, Result};

/// The name folded; `None` when it is not UTF-8: such a name is compared byte by byte.
pub(super) fn fold(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    // Upper-casing first brings together what has one upper-case letter for two lower-case ones.
    let upper = name.chars().flat_map(char::to_uppercase);
    Some(upper.flat_map(char::to_lowercase).collect())
}

/// What the hash of a name in a casefolded directory is of.
///
/// # Errors
/// `Unsupported` where that is not known for sure.
pub(super) fn hashed(name: &[u8]) -> Result<Cow<'_, [u8]>> {
    if name.is_ascii() {
        return Ok(Cow::Owned(name.to_ascii_lowercase()));
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "a name that is not ASCII, in a directory without regard to case",
    ))
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn case_does_not_count() {
        assert_eq!(fold(b"ReadMe"), fold(b"README"));
        assert_eq!(fold("\u{dc}ber".as_bytes()), fold("\u{fc}BER".as_bytes()));
        assert_eq!(fold("stra\u{df}e".as_bytes()), fold(b"STRASSE"));
        assert_ne!(fold(b"a"), fold(b"b"));
        assert_eq!(fold(b"\xff"), None);
    }
}
