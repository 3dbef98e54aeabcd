//! `VARIABLE_STORE_HEADER`: the header before the variables. edk2, `Guid/VariableFormat.h`.

use diskfs_block::{Error, Result};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::Guid;
use crate::variable_header::Format;

pub(crate) const AUTHENTICATED_VARIABLE_GUID: Guid = Guid::new(
    0xaaf3_2c78,
    0x947b,
    0x439a,
    [0xa1, 0x80, 0x2e, 0x14, 0x4e, 0xc3, 0x77, 0x92],
);

pub(crate) const VARIABLE_GUID: Guid = Guid::new(
    0xddcf_3616,
    0x3275,
    0x4164,
    [0x98, 0xb6, 0xfe, 0x85, 0x70, 0x7f, 0xfe, 0x7d],
);

pub(crate) const VARIABLE_STORE_FORMATTED: u8 = 0x5a;
pub(crate) const VARIABLE_STORE_HEALTHY: u8 = 0xfe;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    signature: Guid,
    size: U32,
    format: u8,
    state: u8,
    reserved: U16,
    reserved_1: U32,
}

pub(crate) const VARIABLE_STORE_HEADER_BYTES: usize = 28;
const _: () = assert!(size_of::<Raw>() == VARIABLE_STORE_HEADER_BYTES);

/// The header of a formatted and healthy store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VariableStoreHeader {
    pub(crate) format: Format,
    /// The size of the store in bytes, including this header.
    pub(crate) size_bytes: usize,
}

impl VariableStoreHeader {
    /// Parses the header at `start` of a volume. The store must be within the volume.
    ///
    /// # Errors
    /// `Unsupported` for stores of another type; `Corrupt` if the header is invalid.
    pub(crate) fn read(volume: &[u8], start: usize) -> Result<Self> {
        let at = diskfs_block::bytes::len_u64(start);
        let rest = volume.get(start..).unwrap_or_default();
        let (raw, _) = Raw::ref_from_prefix(rest).map_err(|_| {
            Error::corrupt("invalid variable store: the volume ends before it").at(at)
        })?;
        let format = match raw.signature {
            AUTHENTICATED_VARIABLE_GUID => Format::Authenticated,
            VARIABLE_GUID => Format::Plain,
            other => {
                return Err(
                    Error::unsupported(format!("unsupported variable store type {other}")).at(at),
                );
            }
        };
        if (raw.format, raw.state) != (VARIABLE_STORE_FORMATTED, VARIABLE_STORE_HEALTHY) {
            return Err(Error::corrupt(
                "invalid variable store: it is not formatted, or not healthy",
            )
            .at(at));
        }
        let size = diskfs_block::bytes::index(raw.size.get());
        if size < VARIABLE_STORE_HEADER_BYTES || size > rest.len() {
            return Err(
                Error::corrupt("invalid variable store: it is longer than its volume").at(at),
            );
        }
        Ok(Self {
            format,
            size_bytes: size,
        })
    }
}
