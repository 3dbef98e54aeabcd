//! Descriptors of a log entry: MS-VHDX 2.3.1.2 and 2.3.1.3.

use diskfs_block::bytes;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::log::SECTOR_BYTES;

const ZERO_SIGNATURE: [u8; 4] = *b"zero";
const DATA_SIGNATURE: [u8; 4] = *b"desc";

/// A zero descriptor or a data descriptor. They differ only in the second and third field.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDescriptor {
    signature: [u8; 4],
    /// Reserved, or `TrailingBytes`.
    trailing_bytes: [u8; 4],
    /// `ZeroLength`, or `LeadingBytes`.
    leading_bytes: [u8; 8],
    file_offset: U64,
    sequence_number: U64,
}

/// A change of the file.
#[derive(Debug)]
pub(crate) enum Descriptor {
    /// Zeroes.
    Zero { at: u64, len_bytes: u64 },
    /// A whole sector.
    Data { at: u64, update: Vec<u8> },
}

/// A descriptor without its data sector.
#[derive(Debug)]
pub(crate) enum ParsedDescriptor {
    Zero {
        at: u64,
        len_bytes: u64,
    },
    Data {
        at: u64,
        leading_bytes: [u8; 8],
        trailing_bytes: [u8; 4],
    },
}

impl ParsedDescriptor {
    /// Parses a descriptor of the entry with this sequence number. Returns `None` if it is invalid.
    pub(crate) fn parse(descriptor: &[u8], sequence_number: u64) -> Option<Self> {
        let raw = RawDescriptor::read_from_bytes(descriptor).ok()?;
        let at = raw.file_offset.get();
        let sector = bytes::len_u64(SECTOR_BYTES);
        if raw.sequence_number.get() != sequence_number || !at.is_multiple_of(sector) {
            return None;
        }
        match raw.signature {
            ZERO_SIGNATURE => {
                let len_bytes = u64::from_le_bytes(raw.leading_bytes);
                let is_valid =
                    len_bytes.is_multiple_of(sector) && at.checked_add(len_bytes).is_some();
                is_valid.then_some(Self::Zero { at, len_bytes })
            }
            DATA_SIGNATURE => at.checked_add(sector).map(|_| Self::Data {
                at,
                leading_bytes: raw.leading_bytes,
                trailing_bytes: raw.trailing_bytes,
            }),
            _ => None,
        }
    }

    /// Returns the end of the changed range.
    pub(crate) const fn end(&self) -> u64 {
        match self {
            Self::Zero { at, len_bytes } => at.saturating_add(*len_bytes),
            Self::Data { at, .. } => at.saturating_add(4096),
        }
    }
}
