//! The header of a reply to an option.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::limits::MAX_OPTION_BYTES;
use super::reply_type::ReplyType;
use super::violation::{TRUNCATED, Violation};

const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawOptionReply {
    magic: U64,
    option: U32,
    reply_type: U32,
    length: U32,
}

/// The header of a reply to an option, which `length` bytes of data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionReply {
    /// The number of the option to which this is a reply.
    pub(crate) option: u32,
    /// The number of the reply's type, which may be unknown.
    pub(crate) reply_type: u32,
    /// The length of the data in bytes, at most [`MAX_OPTION_BYTES`].
    pub(crate) length: usize,
}

impl OptionReply {
    /// The length of the header in bytes.
    pub(crate) const BYTES: usize = size_of::<RawOptionReply>();

    /// Decodes a header.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let raw = RawOptionReply::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
        if raw.magic.get() != REPLY_MAGIC {
            return Err(Violation("invalid magic number of an option's reply"));
        }
        if raw.length.get() > MAX_OPTION_BYTES {
            return Err(Violation("the reply to an option is longer than 64 KiB"));
        }
        Ok(Self {
            option: raw.option.get(),
            reply_type: raw.reply_type.get(),
            length: usize::try_from(raw.length.get()).map_err(|_| TRUNCATED)?,
        })
    }

    /// Encodes a reply with its data.
    pub(crate) fn encode(option: u32, reply_type: ReplyType, data: &[u8]) -> Vec<u8> {
        let raw = RawOptionReply {
            magic: REPLY_MAGIC.into(),
            option: option.into(),
            reply_type: reply_type.number().into(),
            length: u32::try_from(data.len()).unwrap_or(u32::MAX).into(),
        };
        [raw.as_bytes(), data].concat()
    }
}
