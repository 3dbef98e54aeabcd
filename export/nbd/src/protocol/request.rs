//! The header of a request, compact or extended.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flags::CommandFlags;
use super::reply_header::Headers;
use super::violation::{TRUNCATED, Violation};

const REQUEST_MAGIC: u32 = 0x2560_9513;
const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRequest {
    magic: U32,
    flags: U16,
    command: U16,
    cookie: U64,
    offset: U64,
    length: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtendedRequest {
    magic: U32,
    flags: U16,
    command: U16,
    cookie: U64,
    offset: U64,
    length: U64,
}

/// The header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// The flags, with those that are unknown.
    pub(crate) flags: CommandFlags,
    /// The number of the command, which may be unknown.
    pub(crate) command: u16,
    /// The identifier that the reply repeats.
    pub(crate) cookie: u64,
    /// The first byte of the export.
    pub(crate) offset: u64,
    /// The length of the range, or of the payload, in bytes.
    pub(crate) length: u64,
}

impl Request {
    /// Returns the length of a header in bytes.
    pub(crate) const fn bytes(headers: Headers) -> usize {
        match headers {
            Headers::Extended => size_of::<RawExtendedRequest>(),
            Headers::Simple | Headers::Structured => size_of::<RawRequest>(),
        }
    }

    /// Encodes the header. A compact one has only the lower 32 bits of a length: the caller splits
    /// longer requests.
    pub(crate) fn encode(&self, headers: Headers) -> Vec<u8> {
        let (flags, command) = (self.flags.bits().into(), self.command.into());
        let (cookie, offset) = (self.cookie.into(), self.offset.into());
        if headers == Headers::Extended {
            let raw = RawExtendedRequest {
                magic: EXTENDED_REQUEST_MAGIC.into(),
                flags,
                command,
                cookie,
                offset,
                length: self.length.into(),
            };
            return raw.as_bytes().to_vec();
        }
        let raw = RawRequest {
            magic: REQUEST_MAGIC.into(),
            flags,
            command,
            cookie,
            offset,
            length: u32::try_from(self.length).unwrap_or(u32::MAX).into(),
        };
        raw.as_bytes().to_vec()
    }

    /// Decodes a header.
    pub(crate) fn decode(headers: Headers, bytes: &[u8]) -> Result<Self, Violation> {
        let (raw, expected) = if headers == Headers::Extended {
            let raw = RawExtendedRequest::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
            (raw, EXTENDED_REQUEST_MAGIC)
        } else {
            (compact(bytes)?, REQUEST_MAGIC)
        };
        if raw.magic.get() != expected {
            return Err(Violation("invalid magic number of a request"));
        }
        Ok(Self {
            flags: CommandFlags::from_bits_retain(raw.flags.get()),
            command: raw.command.get(),
            cookie: raw.cookie.get(),
            offset: raw.offset.get(),
            length: raw.length.get(),
        })
    }
}

/// Decodes a compact header, and widens its length.
fn compact(bytes: &[u8]) -> Result<RawExtendedRequest, Violation> {
    let raw = RawRequest::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
    Ok(RawExtendedRequest {
        magic: raw.magic,
        flags: raw.flags,
        command: raw.command,
        cookie: raw.cookie,
        offset: raw.offset,
        length: u64::from(raw.length.get()).into(),
    })
}
