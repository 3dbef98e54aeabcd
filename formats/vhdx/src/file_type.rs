//! The file type identifier: MS-VHDX 2.2.1.

use diskfs_block::{BlockRead, Error, Result, read_within};

const SIGNATURE: &[u8] = b"vhdxfile";
/// The length of the creator's name: 256 UTF-16 units.
const CREATOR_BYTES: usize = 512;

/// Checks the signature and returns the name of the program that created the image.
pub(crate) fn read(file: &dyn BlockRead) -> Result<String> {
    let len = SIGNATURE.len().saturating_add(CREATOR_BYTES);
    let start = read_within(file, 0, len)?.unwrap_or_default();
    let Some(creator) = start.strip_prefix(SIGNATURE) else {
        return Err(Error::corrupt("not a VHDX: its signature is missing").at(0));
    };
    Ok(utf16(creator))
}

/// Returns the UTF-16 text up to the first NUL.
pub(crate) fn utf16(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .filter_map(|pair| pair.try_into().ok());
    let units = units.map(u16::from_le_bytes).take_while(|unit| *unit != 0);
    char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
