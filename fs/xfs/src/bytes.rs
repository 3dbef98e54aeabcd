//! Conversions of lengths and raw big-endian fields, without a cast or an index that could go
//! wrong.

pub(crate) use diskfs_block::bytes::{array, index, len_u64, part};

/// Reads the big-endian 16-bit number at `offset`.
#[inline]
pub(crate) fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_be_bytes)
}

/// Reads the big-endian 32-bit number at `offset`.
#[inline]
pub(crate) fn be32(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_be_bytes)
}

/// Reads the big-endian 64-bit number at `offset`.
#[inline]
pub(crate) fn be64(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_be_bytes)
}
