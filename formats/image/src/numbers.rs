//! Arithmetic on sizes that cannot overflow.

/// Conversions between a length in memory and a length in bytes. A value that does not fit
/// saturates, and is refused by the length check or the allocation that follows.
pub(crate) use diskfs_block::bytes::{index as to_usize, len_u64 as to_u64};

/// Returns `2^bits`, or zero if that does not fit.
pub(crate) const fn power_of_two(bits: u32) -> u64 {
    match 1_u64.checked_shl(bits) {
        Some(power) => power,
        None => 0,
    }
}

/// Returns `value / 2^bits`.
pub(crate) const fn shift_right(value: u64, bits: u32) -> u64 {
    match value.checked_shr(bits) {
        Some(shifted) => shifted,
        None => 0,
    }
}

/// Returns `value * 2^bits`, or `None` if that does not fit.
pub(crate) const fn shift_left(value: u64, bits: u32) -> Option<u64> {
    value.checked_mul(power_of_two(bits))
}

/// Returns `value % 2^bits`.
pub(crate) const fn low_bits(value: u64, bits: u32) -> u64 {
    value & power_of_two(bits).wrapping_sub(1)
}

/// Returns `value` rounded up to a multiple of `2^bits`, saturating.
pub(crate) const fn round_up(value: u64, bits: u32) -> u64 {
    let mask = power_of_two(bits).wrapping_sub(1);
    value.saturating_add(mask) & !mask
}

/// Returns bit `index` of `value`.
pub(crate) const fn has_bit(value: u64, index: u32) -> bool {
    low_bits(shift_right(value, index), 1) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        assert_eq!(shift_right(u64::MAX, 64), 0);
        assert_eq!(shift_left(1, 63), Some(1 << 63));
        assert_eq!(shift_left(2, 63), None);
        assert_eq!(low_bits(0x1234, 8), 0x34);
        assert_eq!(round_up(1, 9), 512);
        assert_eq!(round_up(512, 9), 512);
        assert!(has_bit(1 << 63, 63) && !has_bit(1 << 63, 62));
    }
}
