//! Variable-length integers (section 1.6, "varint").

/// Decodes the integer at the start of `bytes`, and returns it with its length (1 to 9 bytes).
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        let taken = at.saturating_add(1);
        if taken == 9 {
            return Some((value.wrapping_shl(8) | u64::from(*byte), taken));
        }
        value = value.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, taken));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_every_length() {
        assert_eq!(varint(&[0x05, 0xff]), Some((5, 1)));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, 9)));
        let longest = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x07];
        assert_eq!(varint(&longest), Some((7, 9)));
        assert_eq!(varint(&[0x80; 8]), None);
        assert_eq!(varint(&[]), None);
    }
}
