//! UUIDs of LVM.

use std::fmt;

/// The UUID of a physical volume, a group or a logical volume: 32 letters and digits.
///
/// Printed as in LVM, in groups of 6-4-4-4-4-4-6.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LvmId([u8; 32]);

impl LvmId {
    /// Creates a UUID from the bytes of a header; returns `None` if they are invalid.
    pub(super) fn from_disk(bytes: [u8; 32]) -> Option<Self> {
        // LVM2's `lib/uuid/uuid.c` also generates `!` and `#`.
        let valid = |b: u8| b.is_ascii_alphanumeric() || b == b'!' || b == b'#';
        bytes.iter().all(|&b| valid(b)).then_some(Self(bytes))
    }

    /// Makes a UUID of random bytes, from LVM's own alphabet of 62 letters and digits.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        const LETTERS: &[u8; 62] =
            b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let letter = |byte: u8| LETTERS.get(usize::from(byte % 62)).copied();
        Self(bytes.map(|byte| letter(byte).unwrap_or(b'0')))
    }

    /// Returns the letters without dashes, as they are on disk.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses a UUID with dashes anywhere, or without.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let mut letters = text.bytes().filter(|&b| b != b'-');
        for byte in &mut bytes {
            *byte = letters.next()?;
        }
        letters.next().is_none().then_some(())?;
        Self::from_disk(bytes)
    }
}

impl fmt::Display for LvmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, &byte) in self.0.iter().enumerate() {
            if matches!(n, 6 | 10 | 14 | 18 | 22 | 26) {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(byte))?;
        }
        Ok(())
    }
}

impl fmt::Debug for LvmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        let text = "xg9VYe-BhZn-Ectg-an0Y-rZRi-0tS6-HyWSix";
        let id = LvmId::parse(text).unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(LvmId::parse(&text.replace('-', "")), Some(id));
        for wrong in [
            "",
            "xg9VYe",
            &text[1..],
            &format!("{text}a"),
            &text.replace('x', "\0"),
        ] {
            assert_eq!(LvmId::parse(wrong), None, "{wrong}");
        }
    }
}
