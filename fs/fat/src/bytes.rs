//! Lengths, small numbers and raw little-endian fields, without a cast or an index that could go wrong.

pub(crate) use diskfs_block::bytes::{array, index, le16, le32, len_u64, put};

/// A number that is known to be small. Saturates.
pub(crate) fn low32(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}
