//! Names of keys and values. They are stored in Latin-1 ("ASCII (extended)") if possible, otherwise
//! in UTF-16.

use crate::upcase::upcase;

/// A decoded name, in UTF-16 units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(Vec<u16>);

impl Name {
    /// Decodes a stored name. If it is *compressed*, each byte is one character.
    pub(crate) fn from_bytes(bytes: &[u8], is_compressed: bool) -> Self {
        Self(if is_compressed {
            bytes.iter().map(|byte| u16::from(*byte)).collect()
        } else {
            units(bytes)
        })
    }

    /// Returns true if the names are equal, ignoring case.
    pub(crate) fn is(&self, other: &SearchName) -> bool {
        let units = self.0.iter().map(|unit| upcase(*unit));
        units.eq(other.0.iter().copied())
    }

    /// Returns the text. Unpaired surrogates become U+FFFD.
    pub(crate) fn text(&self) -> String {
        String::from_utf16_lossy(&self.0)
    }
}

/// A name to look up, in upper case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchName(Vec<u16>);

impl SearchName {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.encode_utf16().map(upcase).collect())
    }

    /// Returns the number of bytes that the name takes in a hive.
    pub(crate) fn len_bytes(&self, is_compressed: bool) -> usize {
        let units = self.0.len();
        if is_compressed {
            units
        } else {
            units.saturating_mul(2)
        }
    }

    /// Returns the hash for hash leaves; `None` for names beyond ASCII, because the writer may have
    /// used another case table. Specification, "Hash leaf".
    pub(crate) fn hash(&self) -> Option<u32> {
        let is_ascii = self.0.iter().all(|unit| *unit < 0x80);
        is_ascii.then(|| hash(&self.0))
    }

    /// Returns true if the first characters in a fast leaf match this name. Characters beyond ASCII
    /// always match. Specification, "Fast leaf".
    pub(crate) fn may_begin_with(&self, hint: [u8; 4]) -> bool {
        if hint.iter().any(|byte| !byte.is_ascii()) || hint.starts_with(&[0]) {
            return true;
        }
        let units = self.0.iter().copied().chain(std::iter::repeat(0));
        let hint = hint.iter().map(|byte| u16::from(byte.to_ascii_uppercase()));
        hint.zip(units)
            .all(|(hint, unit)| hint == unit || unit >= 0x80)
    }
}

/// Computes the hash of an upper-case name.
pub(crate) fn hash(upper: &[u16]) -> u32 {
    upper.iter().fold(0_u32, |hash, unit| {
        hash.wrapping_mul(37).wrapping_add(u32::from(*unit))
    })
}

/// Decodes UTF-16LE units. An incomplete unit at the end is ignored.
pub(crate) fn units(bytes: &[u8]) -> Vec<u16> {
    let pairs = bytes.as_chunks::<2>().0.iter();
    pairs.map(|pair| u16::from_le_bytes(*pair)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_any_case() {
        let name = Name::from_bytes(b"\xdcber", true);
        assert_eq!(name.text(), "Über");
        assert!(name.is(&SearchName::new("über")));
        assert!(!name.is(&SearchName::new("übe")));
        let wide: Vec<u8> = "Ключ".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(Name::from_bytes(&wide, false).is(&SearchName::new("КЛЮЧ")));
    }

    #[test]
    fn hints_leave_out_what_is_another_name() {
        let name = SearchName::new("Run");
        for (hint, may) in [
            (*b"Run\0", true),
            (*b"run\0", true),
            (*b"RunO", false),
            (*b"Rux\0", false),
            (*b"\0\0\0\0", true),
            (*b"\xfcxyz", true),
        ] {
            assert_eq!(name.may_begin_with(hint), may, "{hint:?}");
        }
        assert!(SearchName::new("Äbcd").may_begin_with(*b"?bcd"));
        assert_eq!(SearchName::new("ab").hash(), Some(65 * 37 + 66));
        assert_eq!(SearchName::new("ä").hash(), None);
    }
}
