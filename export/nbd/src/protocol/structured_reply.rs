//! The header of a structured reply chunk.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flags::ReplyFlags;
use super::reply_header::Chunk;
use super::violation::{TRUNCATED, Violation};

pub(super) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawStructuredReply {
    magic: U32,
    flags: U16,
    chunk_type: U16,
    cookie: U64,
    length: U32,
}

impl RawStructuredReply {
    pub(super) fn of(chunk: &Chunk) -> Self {
        Self {
            magic: STRUCTURED_REPLY_MAGIC.into(),
            flags: chunk.flags.bits().into(),
            chunk_type: chunk.kind.into(),
            cookie: chunk.cookie.into(),
            length: chunk.length.into(),
        }
    }

    /// Decodes a header, whose magic number was checked.
    pub(super) fn decode(bytes: &[u8]) -> Result<Chunk, Violation> {
        let raw = Self::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
        Ok(Chunk {
            flags: ReplyFlags::from_bits_retain(raw.flags.get()),
            kind: raw.chunk_type.get(),
            cookie: raw.cookie.get(),
            length: raw.length.get(),
            request_offset: None,
        })
    }
}
