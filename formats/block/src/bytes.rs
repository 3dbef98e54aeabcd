//! Lengths and raw little-endian fields, without a cast or an index that could go wrong.

/// A length in memory as a number of bytes. No platform has a `usize` above 64 bits.
#[inline]
pub fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A number as an index or a length in memory. Saturates, where a slice's `get` then fails.
#[inline]
pub fn index(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

/// `len` bytes at `offset`, if they lie within `bytes`.
#[inline]
pub fn part(bytes: &[u8], offset: usize, len: usize) -> Option<&[u8]> {
    bytes.get(offset..offset.checked_add(len)?)
}

/// `N` bytes at `offset`, if they lie within `bytes`.
#[inline]
pub fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    part(bytes, offset, N)?.try_into().ok()
}

/// The little-endian 16-bit number at `offset`.
#[inline]
pub fn le16(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

/// The little-endian 32-bit number at `offset`.
#[inline]
pub fn le32(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

/// Puts `value` at `offset`, if there is room for it.
#[inline]
pub fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(end) = offset.checked_add(value.len())
        && let Some(place) = bytes.get_mut(offset..end)
    {
        place.copy_from_slice(value);
    }
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
}
