//! The checksum of headers, region tables and log entries.

/// The offset of the checksum in each of these structures.
const FIELD_AT: usize = 4;

/// Returns the CRC-32C of a structure, with zeroes in place of its own checksum.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let (start, rest) = bytes.split_at(FIELD_AT.min(bytes.len()));
    let after = rest.get(4..).unwrap_or_default();
    let crc = crc32c::crc32c_append(crc32c::crc32c(start), &[0; 4]);
    crc32c::crc32c_append(crc, after)
}

/// Stores the checksum of a structure in it.
pub(crate) fn put_checksum(bytes: &mut [u8]) {
    let checksum = checksum(bytes);
    diskfs_block::bytes::put(bytes, FIELD_AT, &checksum.to_le_bytes());
}
