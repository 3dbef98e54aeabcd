//! Numbers in the byte order of a structure.

use diskfs_block::bytes::array;

/// A byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    /// Little-endian: the least significant byte first.
    Little,
    /// Big-endian: the most significant byte first.
    Big,
}

impl ByteOrder {
    /// Returns the 16-bit number at `offset`; `None` if it is not within `bytes`.
    pub(crate) fn u16(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let field = array(bytes, offset)?;
        Some(match self {
            Self::Little => u16::from_le_bytes(field),
            Self::Big => u16::from_be_bytes(field),
        })
    }

    /// Returns the 32-bit number at `offset`; `None` if it is not within `bytes`.
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        array(bytes, offset).map(|field| self.word(field))
    }

    /// Decodes a number of four bytes.
    pub(crate) fn word(self, field: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        }
    }
}
