//! The payload of an `NBD_REPLY_TYPE_OFFSET_HOLE` chunk.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::violation::Violation;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawOffsetHole {
    offset: U64,
    hole_size: U32,
}

/// The payload of an `NBD_REPLY_TYPE_OFFSET_HOLE` chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetHole {
    /// The first byte of the export.
    pub(crate) offset: u64,
    /// The length of the hole; never zero.
    pub(crate) size_bytes: u32,
}

impl OffsetHole {
    /// The length in bytes.
    pub(crate) const BYTES: u32 = 12;

    /// Encodes the payload.
    pub(crate) fn encode(self) -> Vec<u8> {
        let raw = RawOffsetHole {
            offset: self.offset.into(),
            hole_size: self.size_bytes.into(),
        };
        raw.as_bytes().to_vec()
    }

    /// Decodes the payload.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let raw = RawOffsetHole::read_from_bytes(bytes)
            .map_err(|_| Violation("invalid length of a hole's chunk"))?;
        if raw.hole_size.get() == 0 {
            return Err(Violation("a hole without bytes"));
        }
        Ok(Self {
            offset: raw.offset.get(),
            size_bytes: raw.hole_size.get(),
        })
    }
}
