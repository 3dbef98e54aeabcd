//! A descriptor of a block status.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A descriptor of `NBD_REPLY_TYPE_BLOCK_STATUS`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawBlockDescriptor {
    length: U32,
    flags: U32,
}

/// A descriptor of `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawExtendedBlockDescriptor {
    length: U64,
    flags: U64,
}

/// A run of an export with one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockDescriptor {
    /// The length of the run; never zero.
    pub(crate) len_bytes: u64,
    /// The flags, which the metadata context defines.
    pub(crate) flags: u64,
}

impl From<RawBlockDescriptor> for BlockDescriptor {
    fn from(raw: RawBlockDescriptor) -> Self {
        Self {
            len_bytes: raw.length.get().into(),
            flags: raw.flags.get().into(),
        }
    }
}

impl From<RawExtendedBlockDescriptor> for BlockDescriptor {
    fn from(raw: RawExtendedBlockDescriptor) -> Self {
        Self {
            len_bytes: raw.length.get(),
            flags: raw.flags.get(),
        }
    }
}

impl From<BlockDescriptor> for RawBlockDescriptor {
    /// Converts a run of less than 4 GiB and flags of 32 bits, as contexts without extended headers
    /// have.
    fn from(run: BlockDescriptor) -> Self {
        Self {
            length: u32::try_from(run.len_bytes).unwrap_or(u32::MAX).into(),
            flags: u32::try_from(run.flags).unwrap_or(u32::MAX).into(),
        }
    }
}

impl From<BlockDescriptor> for RawExtendedBlockDescriptor {
    fn from(run: BlockDescriptor) -> Self {
        Self {
            length: run.len_bytes.into(),
            flags: run.flags.into(),
        }
    }
}
