//! GUIDs as UEFI stores them.

use std::fmt;

use uuid::Uuid;

/// A GUID: sixteen bytes, of which the first three fields are stored little-endian and the rest in
/// the printed order.
///
/// Source: UEFI specification 2.10, appendix A. Printed in lower case, as `blkid` prints a
/// PARTUUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid(Uuid);

impl Guid {
    /// The nil GUID: the type of an unused entry.
    pub const NIL: Self = Self(Uuid::nil());

    /// Creates a GUID from its bytes on disk.
    pub const fn from_disk(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes_le(bytes))
    }

    /// Creates a GUID from its printed digits as one number.
    pub const fn from_u128(digits: u128) -> Self {
        Self(Uuid::from_u128(digits))
    }

    /// Returns the bytes as they are on disk.
    pub const fn to_disk(self) -> [u8; 16] {
        self.0.to_bytes_le()
    }

    /// Returns true if the GUID is all zeroes.
    pub const fn is_nil(self) -> bool {
        self.0.is_nil()
    }
}

impl std::str::FromStr for Guid {
    type Err = diskfs_block::Error;

    /// Parses a GUID in its printed form: `0fc63daf-8483-4772-8e79-3d69d8477de4`, in any case.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](diskfs_block::ErrorKind::Invalid).
    fn from_str(text: &str) -> diskfs_block::Result<Self> {
        let parsed = Uuid::try_parse(text).ok().filter(|_| text.len() == 36);
        parsed.map(Self).ok_or_else(|| {
            diskfs_block::Error::invalid(format!("invalid GUID `{text}`"))
                .with_hint("write it as 0fc63daf-8483-4772-8e79-3d69d8477de4")
        })
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(self.0.as_hyphenated(), f)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_fields_are_little_endian() {
        // The ESP's type as UEFI 2.10 table 5.7 prints it, and as it is stored on disk.
        let esp = Guid::from_u128(0xc12a7328_f81f_11d2_ba4b_00a0c93ec93b);
        let disk = [
            0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e,
            0xc9, 0x3b,
        ];
        assert_eq!(Guid::from_disk(disk), esp);
        assert_eq!(esp.to_disk(), disk);
        assert_eq!(esp.to_string(), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
        assert!(Guid::NIL.is_nil() && !esp.is_nil());
        let printed = "C12A7328-f81f-11d2-ba4b-00a0c93ec93b";
        assert_eq!(printed.parse::<Guid>().unwrap(), esp);
        for invalid in [
            "",
            "c12a7328f81f11d2ba4b00a0c93ec93b",
            "{}",
            "c12a7328-f81f",
        ] {
            assert!(invalid.parse::<Guid>().is_err(), "{invalid}");
        }
    }
}
