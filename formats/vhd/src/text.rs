//! Texts in UTF-16.

use diskfs_block::bytes;

/// Returns the UTF-16 text up to the first NUL.
pub(crate) fn utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> String {
    let units = bytes
        .chunks_exact(2)
        .filter_map(|pair| bytes::array(pair, 0));
    let units = units.map(unit).take_while(|unit| *unit != 0);
    char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
