//! Conversions of lengths and raw little-endian fields, without a cast or an index that could go
//! wrong.

pub(crate) use diskfs_block::bytes::{array, index, le16, le32, le64, len_u64, part};

/// Returns the low 32 bits of a number.
#[inline]
pub(crate) fn low32(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Returns the UUID in its usual spelling.
pub(crate) fn uuid_text(bytes: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(bytes).hyphenated().to_string()
}
