//! The checksum of metadata blocks, `dm_bm_checksum`: CRC-32C without the final inversion, combined
//! with a constant for each kind of block.

/// Returns the checksum of a block's bytes after the checksum itself; `xor` is the constant of its
/// kind.
pub(super) fn checksum(bytes: &[u8], xor: u32) -> u32 {
    !crc32c::crc32c(bytes) ^ xor
}
