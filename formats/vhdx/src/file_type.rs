//! The file type identifier: MS-VHDX 2.2.1.

use diskfs_block::bytes::{le16, text_until_nul};
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

/// Returns the identifier of a new image: the signature, and the creator up to its NUL.
pub(crate) fn encode(creator: &str) -> Vec<u8> {
    let units = creator.encode_utf16().chain([0]);
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend(units.flat_map(u16::to_le_bytes));
    bytes
}

/// Returns the UTF-16 text up to the first NUL.
pub(crate) fn utf16(text: &[u8]) -> String {
    text_until_nul(text.chunks_exact(2).filter_map(|unit| le16(unit, 0)))
}
