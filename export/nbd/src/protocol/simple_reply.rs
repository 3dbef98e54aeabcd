//! The simple reply.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::violation::{TRUNCATED, Violation};

pub(super) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSimpleReply {
    magic: U32,
    error: U32,
    cookie: U64,
}

/// A simple reply, which the data of a successful read follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SimpleReply {
    /// The number of the error, or 0.
    pub(crate) error: u32,
    /// The cookie of the request.
    pub(crate) cookie: u64,
}

impl SimpleReply {
    pub(super) const BYTES: usize = size_of::<RawSimpleReply>();

    /// Encodes the reply.
    pub(crate) fn encode(self) -> Vec<u8> {
        let raw = RawSimpleReply {
            magic: SIMPLE_REPLY_MAGIC.into(),
            error: self.error.into(),
            cookie: self.cookie.into(),
        };
        raw.as_bytes().to_vec()
    }

    /// Decodes a reply, whose magic number was checked.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let raw = RawSimpleReply::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
        Ok(Self {
            error: raw.error.get(),
            cookie: raw.cookie.get(),
        })
    }
}
