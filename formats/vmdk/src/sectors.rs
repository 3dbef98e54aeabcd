//! Sectors: the unit of all places and sizes of the format, 512 bytes.

use diskfs_block::{Error, Result};

/// The size of a sector in bytes, on every medium.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Converts a number of sectors to bytes.
///
/// # Errors
/// `Corrupt`, with the name of the field and the byte `at` of the file, if the number of bytes is
/// no offset of a file: more than 2^63 - 1.
pub(crate) fn to_bytes(sectors: u64, field: &str, at: u64) -> Result<u64> {
    sectors
        .checked_mul(SECTOR_BYTES)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| {
            let reason = format!("invalid {field}: {sectors} sectors are more than 2^63 bytes");
            Error::corrupt(reason).at(at)
        })
}
