//! The reply to `NBD_OPT_EXPORT_NAME`.

use zerocopy::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flags::TransmissionFlags;
use super::violation::{TRUNCATED, Violation};

/// The reserved zeroes after the reply, unless `NBD_FLAG_C_NO_ZEROES` was negotiated.
const RESERVED_BYTES: usize = 124;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExportNameReply {
    size: U64,
    flags: U16,
}

/// The reply to `NBD_OPT_EXPORT_NAME`, without its reserved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExportNameReply {
    pub(crate) size_bytes: u64,
    pub(crate) flags: TransmissionFlags,
}

impl ExportNameReply {
    /// Returns the length in bytes.
    pub(crate) fn bytes(has_zeroes: bool) -> usize {
        let zeroes = if has_zeroes { RESERVED_BYTES } else { 0 };
        size_of::<RawExportNameReply>().saturating_add(zeroes)
    }

    /// Encodes the reply.
    pub(crate) fn encode(self, has_zeroes: bool) -> Vec<u8> {
        let raw = RawExportNameReply {
            size: self.size_bytes.into(),
            flags: self.flags.bits().into(),
        };
        let mut bytes = raw.as_bytes().to_vec();
        bytes.resize(Self::bytes(has_zeroes), 0);
        bytes
    }

    /// Decodes the reply.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let (raw, _) = RawExportNameReply::read_from_prefix(bytes).map_err(|_| TRUNCATED)?;
        Ok(Self {
            size_bytes: raw.size.get(),
            flags: TransmissionFlags::from_bits_retain(raw.flags.get()),
        })
    }
}
