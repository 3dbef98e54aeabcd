//! UCS-2 text that ends with a zero.

use diskfs_block::bytes::part;

/// Decodes the text at the start of `bytes`, and returns it with its length including the zero;
/// `None` if there is no zero. Invalid Unicode becomes U+FFFD.
pub(crate) fn read(bytes: &[u8]) -> Option<(String, usize)> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let len = pairs.iter().position(|pair| *pair == [0, 0])?;
    let units: Vec<u16> = pairs
        .iter()
        .take(len)
        .map(|pair| u16::from_le_bytes(*pair))
        .collect();
    let len_bytes = len.checked_add(1)?.checked_mul(2)?;
    Some((String::from_utf16_lossy(&units), len_bytes))
}

/// Decodes a text that takes all of `bytes`; `None` if it ends earlier, or has no zero.
pub(crate) fn read_whole(bytes: &[u8]) -> Option<String> {
    let (text, len) = read(bytes)?;
    (len == bytes.len()).then_some(text)
}

/// Encodes a text with its final zero. The text must not contain a zero.
pub(crate) fn to_bytes(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    units.flat_map(u16::to_le_bytes).collect()
}

/// Decodes a text up to the first zero, or to the end of the bytes.
pub(crate) fn read_to_end(bytes: &[u8]) -> String {
    let whole = read(bytes).map(|(text, _)| text);
    whole.unwrap_or_else(|| {
        let len = bytes.len() & !1;
        let pairs = part(bytes, 0, len).unwrap_or_default().as_chunks::<2>().0;
        let units: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        String::from_utf16_lossy(&units)
    })
}
