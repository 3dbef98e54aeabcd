//! Lengths and raw fields, without casts or indexing that could fail.

/// Converts a length in memory to a number of bytes. No platform has a `usize` above 64 bits.
#[inline]
pub fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Converts a number to an index or a length in memory. Saturates if it is too large, so that the
/// slice's `get` then fails.
#[inline]
pub fn index(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

/// Returns `len` bytes at `offset`, if they lie within `bytes`.
#[inline]
pub fn part(bytes: &[u8], offset: usize, len: usize) -> Option<&[u8]> {
    bytes.get(offset..offset.checked_add(len)?)
}

/// Returns `N` bytes at `offset` as an array, if they lie within `bytes`.
#[inline]
pub fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    part(bytes, offset, N)?.try_into().ok()
}

/// Reads the little-endian 16-bit number at `offset`.
#[inline]
pub fn le16(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

/// Reads the little-endian 32-bit number at `offset`.
#[inline]
pub fn le32(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

/// Reads the little-endian 64-bit number at `offset`.
#[inline]
pub fn le64(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// Reads the big-endian 16-bit number at `offset`.
#[inline]
pub fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_be_bytes)
}

/// Reads the big-endian 32-bit number at `offset`.
#[inline]
pub fn be32(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_be_bytes)
}

/// Reads the big-endian 64-bit number at `offset`.
#[inline]
pub fn be64(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_be_bytes)
}

/// Returns true if all bytes are zero, by the comparison of the C library.
pub fn is_zero(bytes: &[u8]) -> bool {
    static ZEROES: [u8; 4096] = [0; 4096];
    let mut parts = bytes.chunks(ZEROES.len());
    parts.all(|part| ZEROES.get(..part.len()) == Some(part))
}

/// Decodes UTF-16 units up to the first NUL, or all of them. Invalid ones are replaced.
pub fn text_until_nul(units: impl IntoIterator<Item = u16>) -> String {
    let units = units.into_iter().take_while(|unit| *unit != 0);
    char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// Writes `value` at `offset`, if it fits.
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
    fn one_byte_anywhere_is_not_zero() {
        let mut bytes = vec![0; 10_000];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in [0, 63, 4095, 4096, 8191, 9999] {
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
            bytes[at] = 0;
        }
    }

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
