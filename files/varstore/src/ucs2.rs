//! Texts in UCS-2 that end with a zero.

use diskfs_block::bytes::part;

/// The text that `bytes` begin with and how long it is with its end; `None` when it does not end. What is no
/// Unicode in it becomes U+FFFD.
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

/// The text that all of `bytes` are; `None` when it ends before them, or not.
pub(crate) fn read_whole(bytes: &[u8]) -> Option<String> {
    let (text, len) = read(bytes)?;
    (len == bytes.len()).then_some(text)
}

/// A text with its end. It must have no zero within.
pub(crate) fn to_bytes(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    units.flat_map(u16::to_le_bytes).collect()
}

/// A text up to its first zero, or to where the bytes end.
pub(crate) fn read_to_end(bytes: &[u8]) -> String {
    let whole = read(bytes).map(|(text, _)| text);
    whole.unwrap_or_else(|| {
        let len = bytes.len() & !1;
        let pairs = part(bytes, 0, len).unwrap_or_default().as_chunks::<2>().0;
        let units: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        String::from_utf16_lossy(&units)
    })
}
