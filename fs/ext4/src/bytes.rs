//! Lengths and raw little-endian fields, without a cast or an index that could go wrong.

/// A length in memory as a number of bytes. No platform has a `usize` above 64 bits.
pub(crate) fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A number as an index or a length in memory. Saturates, where a slice's `get` then fails.
pub(crate) fn index(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

/// `len` bytes at `offset`, if they lie within `bytes`.
pub(crate) fn part(bytes: &[u8], offset: usize, len: usize) -> Option<&[u8]> {
    bytes.get(offset..offset.checked_add(len)?)
}

/// `N` bytes at `offset`, if they lie within `bytes`.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    part(bytes, offset, N)?.try_into().ok()
}

/// The little-endian 16-bit number at `offset`.
pub(crate) fn le16(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

/// The little-endian 32-bit number at `offset`.
pub(crate) fn le32(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

/// Puts `value` at `offset`, if there is room for it.
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(end) = offset.checked_add(value.len())
        && let Some(place) = bytes.get_mut(offset..end)
    {
        place.copy_from_slice(value);
    }
}

/// The halves of a 64-bit number, upper half first.
pub(crate) fn split64(value: u64) -> (u32, u32) {
    let half = |value: u64| u32::try_from(value & 0xffff_ffff).unwrap_or(0);
    (half(value.wrapping_shr(32)), half(value))
}

/// The halves of a 32-bit number, upper half first.
pub(crate) fn split32(value: u32) -> (u16, u16) {
    let [a, b, c, d] = value.to_le_bytes();
    (u16::from_le_bytes([c, d]), u16::from_le_bytes([a, b]))
}

/// A 64-bit number out of its halves.
pub(crate) fn join64(high: u32, low: u32) -> u64 {
    u64::from(high).wrapping_shl(32) | u64::from(low)
}

/// A 32-bit number out of its halves.
pub(crate) fn join32(high: u16, low: u16) -> u32 {
    u32::from(high).wrapping_shl(16) | u32::from(low)
}

/// The low half of a 32-bit number.
pub(crate) fn low16(value: u32) -> u16 {
    let [a, b, _, _] = value.to_le_bytes();
    u16::from_le_bytes([a, b])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_past_the_end_are_none() {
        let bytes = [1, 2, 3, 4, 5];
        assert_eq!(le16(&bytes, 3), Some(0x0504));
        assert_eq!(le16(&bytes, 4), None);
        assert_eq!(le32(&bytes, 1), Some(0x0504_0302));
        assert_eq!(le32(&bytes, usize::MAX), None);
        assert_eq!(part(&bytes, 5, 0), Some(&[][..]));
    }

    #[test]
    fn halves_join() {
        assert_eq!(join64(1, 2), 0x1_0000_0002);
        assert_eq!(join32(1, 2), 0x1_0002);
        assert_eq!(low16(0xdead_beef), 0xbeef);
        assert_eq!(split64(0x1_0000_0002), (1, 2));
        assert_eq!(split32(0x1_0002), (1, 2));
    }
}
