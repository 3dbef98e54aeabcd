//! The header of an extended reply chunk.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flags::ReplyFlags;
use super::reply_header::Chunk;
use super::violation::{TRUNCATED, Violation};

pub(super) const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawExtendedReply {
    magic: U32,
    flags: U16,
    chunk_type: U16,
    cookie: U64,
    offset: U64,
    length: U64,
}

impl RawExtendedReply {
    pub(super) fn of(chunk: &Chunk) -> Self {
        Self {
            magic: EXTENDED_REPLY_MAGIC.into(),
            flags: chunk.flags.bits().into(),
            chunk_type: chunk.kind.into(),
            cookie: chunk.cookie.into(),
            offset: chunk.request_offset.unwrap_or_default().into(),
            length: u64::from(chunk.length).into(),
        }
    }

    /// Decodes a header, whose magic number was checked.
    pub(super) fn decode(bytes: &[u8]) -> Result<Chunk, Violation> {
        let raw = Self::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
        let length = u32::try_from(raw.length.get());
        Ok(Chunk {
            flags: ReplyFlags::from_bits_retain(raw.flags.get()),
            kind: raw.chunk_type.get(),
            cookie: raw.cookie.get(),
            length: length.map_err(|_| Violation("a chunk is longer than 4 GiB"))?,
            request_offset: Some(raw.offset.get()),
        })
    }
}
