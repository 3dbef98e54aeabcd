//! Numbers in the byte order that a structure has them in.

use diskfs_block::bytes::array;

/// The order of a number's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl ByteOrder {
    /// The 16-bit number at `offset`, if it lies within `bytes`.
    pub(crate) fn u16(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let field = array(bytes, offset)?;
        Some(match self {
            Self::Little => u16::from_le_bytes(field),
            Self::Big => u16::from_be_bytes(field),
        })
    }

    /// The 32-bit number at `offset`, if it lies within `bytes`.
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        array(bytes, offset).map(|field| self.word(field))
    }

    /// The number of four bytes.
    pub(crate) fn word(self, field: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        }
    }
}
