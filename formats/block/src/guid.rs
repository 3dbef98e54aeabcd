//! Globally unique identifiers, as image formats store them.

use std::fmt;
use std::str::FromStr;

/// A globally unique identifier (GUID, UUID): 16 bytes in the order in which it is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Guid([u8; 16]);

impl Guid {
    /// Creates an identifier from bytes in the order in which it is written (RFC 9562).
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Creates an identifier from the form that Microsoft and VirtualBox store: the first three
    /// fields are little-endian.
    pub const fn from_mixed_endian(bytes: [u8; 16]) -> Self {
        let [a0, a1, a2, a3, b0, b1, c0, c1, d @ ..] = bytes;
        let [d0, d1, d2, d3, d4, d5, d6, d7] = d;
        Self([
            a3, a2, a1, a0, b1, b0, c1, c0, d0, d1, d2, d3, d4, d5, d6, d7,
        ])
    }

    /// Returns true for the identifier of zeroes, which stands for none.
    pub fn is_nil(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            if matches!(n, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a GUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidGuid;

impl FromStr for Guid {
    type Err = InvalidGuid;

    /// Parses the 32 digits; braces and hyphens are optional.
    fn from_str(text: &str) -> Result<Self, InvalidGuid> {
        let mut digits = text.chars().filter(|c| !matches!(c, '{' | '}' | '-'));
        let mut bytes = [0; 16];
        let mut digit = || {
            let digit = digits.next().and_then(|c| c.to_digit(16));
            digit.and_then(|digit| u8::try_from(digit).ok())
        };
        for byte in &mut bytes {
            let (high, low) = digit().zip(digit()).ok_or(InvalidGuid)?;
            *byte = high.wrapping_shl(4) | low;
        }
        match digits.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(InvalidGuid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_both_ways() {
        let text = "2dc27766-f623-4200-9d64-115e9bfd4a08";
        let guid: Guid = text.parse().unwrap();
        assert_eq!(guid.to_string(), text);
        let braced = format!("{{{}}}", text.to_uppercase());
        assert_eq!(braced.parse(), Ok(guid));
        let stored = *b"\x66\x77\xc2\x2d\x23\xf6\x00\x42\x9d\x64\x11\x5e\x9b\xfd\x4a\x08";
        assert_eq!(Guid::from_mixed_endian(stored), guid);
        for bad in ["", "2dc2", &text[1..], &format!("{text}0"), "x"] {
            assert_eq!(bad.parse::<Guid>(), Err(InvalidGuid));
        }
        assert!(Guid::default().is_nil() && !guid.is_nil());
    }
}
