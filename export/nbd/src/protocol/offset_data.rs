//! The beginning of an `NBD_REPLY_TYPE_OFFSET_DATA` chunk.

use zerocopy::big_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::violation::{TRUNCATED, Violation};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawOffsetData {
    offset: U64,
}

/// The beginning of an `NBD_REPLY_TYPE_OFFSET_DATA` chunk, which the data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetData {
    /// The first byte of the export.
    pub(crate) offset: u64,
}

impl OffsetData {
    /// The length in bytes.
    pub(crate) const BYTES: u32 = 8;

    /// Encodes the field.
    pub(crate) fn encode(self) -> [u8; 8] {
        self.offset.to_be_bytes()
    }

    /// Decodes the field.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let raw = RawOffsetData::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
        Ok(Self {
            offset: raw.offset.get(),
        })
    }
}
