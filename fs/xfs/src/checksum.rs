//! The checksum of version 5 metadata: CRC-32C of the whole structure, with the checksum's own
//! bytes taken as zero, stored in little-endian order.
//!
//! Source: "XFS Self Describing Metadata", kernel documentation.

use crate::bytes::{array, part};
use crate::error::{Result, corrupt};

/// The length of a checksum in bytes.
const CRC_BYTES: usize = 4;

/// Returns the checksum of `bytes`, whose own checksum is stored at `crc_offset`.
pub(crate) fn checksum(bytes: &[u8], crc_offset: usize) -> u32 {
    let after = crc_offset.saturating_add(CRC_BYTES);
    let crc = crc32c::crc32c(bytes.get(..crc_offset).unwrap_or_default());
    let crc = crc32c::crc32c_append(crc, &[0; CRC_BYTES]);
    crc32c::crc32c_append(crc, bytes.get(after..).unwrap_or_default())
}

/// Returns the stored checksum.
pub(crate) fn stored(bytes: &[u8], crc_offset: usize) -> Option<u32> {
    array(bytes, crc_offset).map(u32::from_le_bytes)
}

/// Checks the checksum at `crc_offset` of a structure that begins at byte `at` of the device.
///
/// # Errors
/// `Corrupt` names `structure` with both values.
pub(crate) fn verify(bytes: &[u8], crc_offset: usize, structure: &str, at: u64) -> Result<()> {
    let expected = checksum(bytes, crc_offset);
    let actual = stored(bytes, crc_offset).unwrap_or(!expected);
    if actual == expected {
        return Ok(());
    }
    let reason =
        format!("invalid {structure}: checksum is {actual:#010x}, expected {expected:#010x}");
    Err(corrupt(reason, at))
}

/// Checks that the 16 bytes at `offset` are the UUID that all metadata of the filesystem has.
///
/// # Errors
/// `Corrupt` names `structure`.
pub(crate) fn verify_uuid(
    bytes: &[u8],
    offset: usize,
    uuid: &[u8; 16],
    structure: &str,
    at: u64,
) -> Result<()> {
    if part(bytes, offset, uuid.len()) == Some(uuid) {
        return Ok(());
    }
    let reason = format!("invalid {structure}: its UUID belongs to another filesystem");
    Err(corrupt(reason, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_bytes_count_as_zero() {
        let mut bytes = *b"structure____end";
        let crc = checksum(&bytes, 9);
        bytes[9..13].copy_from_slice(&crc.to_le_bytes());
        assert!(verify(&bytes, 9, "test", 0).is_ok());
        bytes[0] ^= 1;
        let e = verify(&bytes, 9, "test", 512).unwrap_err();
        assert_eq!(e.offset(), Some(512));
        assert_eq!(crc, crc32c::crc32c(b"structure\0\0\0\0end"));
    }
}
