//! The header of a reply of any form.

use zerocopy::IntoBytes;

use super::extended_reply::{EXTENDED_REPLY_MAGIC, RawExtendedReply};
use super::flags::ReplyFlags;
use super::simple_reply::{SIMPLE_REPLY_MAGIC, SimpleReply};
use super::structured_reply::{RawStructuredReply, STRUCTURED_REPLY_MAGIC};
use super::violation::{TRUNCATED, Violation};

/// The form of headers that client and server negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headers {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests, simple replies and structured ones.
    Structured,
    /// Extended requests and replies.
    Extended,
}

/// The header of a structured or extended chunk, which `length` bytes of payload follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The flags, with those that are unknown.
    pub(crate) flags: ReplyFlags,
    /// The number of the chunk's type, which may be unknown.
    pub(crate) kind: u16,
    /// The cookie of the request.
    pub(crate) cookie: u64,
    /// The length of the payload in bytes.
    pub(crate) length: u32,
    /// The offset of the request, which extended headers repeat.
    pub(crate) request_offset: Option<u64>,
}

impl Chunk {
    /// Encodes the header.
    pub(crate) fn encode(&self, headers: Headers) -> Vec<u8> {
        match headers {
            Headers::Extended => RawExtendedReply::of(self).as_bytes().to_vec(),
            Headers::Simple | Headers::Structured => {
                RawStructuredReply::of(self).as_bytes().to_vec()
            }
        }
    }
}

/// The header of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyHeader {
    /// A simple reply.
    Simple(SimpleReply),
    /// A chunk of a structured or extended reply.
    Chunk(Chunk),
}

impl ReplyHeader {
    /// The length of the magic number, which says how long the header is.
    pub(crate) const MAGIC_BYTES: usize = 4;

    /// Returns the length of the header that begins with `magic`.
    pub(crate) fn bytes(headers: Headers, magic: [u8; 4]) -> Result<usize, Violation> {
        match (headers, u32::from_be_bytes(magic)) {
            (Headers::Simple | Headers::Structured, SIMPLE_REPLY_MAGIC) => Ok(SimpleReply::BYTES),
            (Headers::Structured, STRUCTURED_REPLY_MAGIC) => Ok(size_of::<RawStructuredReply>()),
            (Headers::Extended, EXTENDED_REPLY_MAGIC) => Ok(size_of::<RawExtendedReply>()),
            _ => Err(Violation("invalid magic number of a reply")),
        }
    }

    /// Decodes a header.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let magic = bytes.first_chunk().ok_or(TRUNCATED)?;
        match u32::from_be_bytes(*magic) {
            SIMPLE_REPLY_MAGIC => SimpleReply::decode(bytes).map(Self::Simple),
            STRUCTURED_REPLY_MAGIC => RawStructuredReply::decode(bytes).map(Self::Chunk),
            EXTENDED_REPLY_MAGIC => RawExtendedReply::decode(bytes).map(Self::Chunk),
            _ => Err(Violation("invalid magic number of a reply")),
        }
    }
}
