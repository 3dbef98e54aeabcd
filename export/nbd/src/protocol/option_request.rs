//! The header of an option.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::greeting::OPTION_MAGIC;
use super::limits::MAX_OPTION_BYTES;
use super::option_code::OptionCode;
use super::violation::{TRUNCATED, Violation};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawOptionRequest {
    magic: U64,
    option: U32,
    length: U32,
}

/// The header of an option, which `length` bytes of data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionRequest {
    /// The number of the option, which may be unknown.
    pub(crate) option: u32,
    /// The length of the data in bytes, at most [`MAX_OPTION_BYTES`].
    pub(crate) length: usize,
}

impl OptionRequest {
    /// The length of the header in bytes.
    pub(crate) const BYTES: usize = size_of::<RawOptionRequest>();

    /// Decodes a header.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let raw = RawOptionRequest::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
        if raw.magic.get() != OPTION_MAGIC {
            return Err(Violation("invalid magic number of an option"));
        }
        if raw.length.get() > MAX_OPTION_BYTES {
            return Err(Violation("an option is longer than 64 KiB"));
        }
        Ok(Self {
            option: raw.option.get(),
            length: usize::try_from(raw.length.get()).map_err(|_| TRUNCATED)?,
        })
    }

    /// Encodes an option with its data.
    pub(crate) fn encode(option: OptionCode, data: &[u8]) -> Vec<u8> {
        let raw = RawOptionRequest {
            magic: OPTION_MAGIC.into(),
            option: option.number().into(),
            length: u32::try_from(data.len()).unwrap_or(u32::MAX).into(),
        };
        [raw.as_bytes(), data].concat()
    }
}
