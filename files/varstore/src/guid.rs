//! GUIDs in the byte order of the disk. UEFI, appendix A.

use std::fmt;
use std::str::FromStr;

use diskfs_block::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A GUID. Displayed as `8be4df61-93ca-11d2-aa0d-00e098032b8c`; in upper case with `{:X}`.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Guid([u8; 16]);

/// The fields of a C initialiser, as bytes.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Fields([u8; 4], [u8; 2], [u8; 2], [u8; 8]);

/// The index of the byte for each pair of digits in the text.
const TEXT_ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];

/// The pairs with a hyphen before them.
const HYPHENS: [usize; 4] = [4, 6, 8, 10];

impl Guid {
    /// The vendor of the variables that UEFI itself defines: `Boot####`, `BootOrder`, `BootNext`,
    /// `PK`, ... (UEFI 3.3).
    pub const EFI_GLOBAL_VARIABLE: Self = Self::new(
        0x8be4_df61,
        0x93ca,
        0x11d2,
        [0xaa, 0x0d, 0x00, 0xe0, 0x98, 0x03, 0x2b, 0x8c],
    );

    /// Builds a GUID from the fields of a C initialiser, as specifications write them.
    pub const fn new(data1: u32, data2: u16, data3: u16, data4: [u8; 8]) -> Self {
        let (data2, data3) = (data2.to_le_bytes(), data3.to_le_bytes());
        let fields = Fields(data1.to_le_bytes(), data2, data3, data4);
        Self(zerocopy::transmute!(fields))
    }

    /// Builds a GUID from its bytes on the disk.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes on the disk.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    fn in_text_order(self) -> impl Iterator<Item = (usize, u8)> {
        let bytes = TEXT_ORDER.iter().map(move |&at| self.0.get(at).copied());
        bytes.map(Option::unwrap_or_default).enumerate()
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.in_text_order().try_for_each(|(pair, byte)| {
            let hyphen = if HYPHENS.contains(&pair) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")
        })
    }
}

impl fmt::UpperHex for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string().to_ascii_uppercase())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = Error;

    /// Parses `8be4df61-93ca-11d2-aa0d-00e098032b8c`, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, Error> {
        parsed(text).ok_or_else(|| Error::invalid(format!("invalid GUID {text:?}")))
    }
}

fn parsed(text: &str) -> Option<Guid> {
    let lens = text.split('-').map(str::len);
    if !lens.eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let mut digits = text.chars().filter(|&c| c != '-').map(|c| c.to_digit(16));
    let mut bytes = [0; 16];
    for at in TEXT_ORDER {
        let pair = digits
            .next()??
            .checked_mul(16)?
            .checked_add(digits.next()??)?;
        *bytes.get_mut(at)? = u8::try_from(pair).ok()?;
    }
    Some(Guid(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes() {
        let text = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
        assert_eq!(Guid::EFI_GLOBAL_VARIABLE.to_string(), text);
        assert_eq!(text.parse::<Guid>().unwrap(), Guid::EFI_GLOBAL_VARIABLE);
        let upper = text.to_ascii_uppercase();
        assert_eq!(format!("{:X}", Guid::EFI_GLOBAL_VARIABLE), upper);
        assert_eq!(upper.parse::<Guid>().unwrap(), Guid::EFI_GLOBAL_VARIABLE);
        assert_eq!(
            Guid::EFI_GLOBAL_VARIABLE.to_bytes()[..4],
            [0x61, 0xdf, 0xe4, 0x8b]
        );
        for wrong in [
            "",
            "8be4df61",
            "8be4df6193ca11d2aa0d00e098032b8c",
            &text.replace('a', "é"),
            &text.replace('8', "+"),
        ] {
            assert!(wrong.parse::<Guid>().is_err(), "{wrong}");
        }
    }
}
