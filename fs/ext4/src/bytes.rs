//! Conversions of lengths, raw little-endian fields and halves of numbers, without a cast or an
//! index that could go wrong.

pub(crate) use diskfs_block::bytes::{array, index, le16, le32, len_u64, part, put};

/// Splits a 64-bit number into its halves, upper half first.
pub(crate) fn split64(value: u64) -> (u32, u32) {
    let half = |value: u64| u32::try_from(value & 0xffff_ffff).unwrap_or(0);
    (half(value.wrapping_shr(32)), half(value))
}

/// Splits a 32-bit number into its halves, upper half first.
pub(crate) fn split32(value: u32) -> (u16, u16) {
    let [a, b, c, d] = value.to_le_bytes();
    (u16::from_le_bytes([c, d]), u16::from_le_bytes([a, b]))
}

/// Joins two halves to a 64-bit number.
pub(crate) fn join64(high: u32, low: u32) -> u64 {
    u64::from(high).wrapping_shl(32) | u64::from(low)
}

/// Joins two halves to a 32-bit number.
pub(crate) fn join32(high: u16, low: u16) -> u32 {
    u32::from(high).wrapping_shl(16) | u32::from(low)
}

/// Returns the low half of a 32-bit number.
pub(crate) fn low16(value: u32) -> u16 {
    let [a, b, _, _] = value.to_le_bytes();
    u16::from_le_bytes([a, b])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_join() {
        assert_eq!(join64(1, 2), 0x1_0000_0002);
        assert_eq!(join32(1, 2), 0x1_0002);
        assert_eq!(low16(0xdead_beef), 0xbeef);
        assert_eq!(split64(0x1_0000_0002), (1, 2));
        assert_eq!(split32(0x1_0002), (1, 2));
    }
}
