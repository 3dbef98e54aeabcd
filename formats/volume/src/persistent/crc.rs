//! `dm_bm_checksum`: CRC-32C without the last inversion, changed for each kind of block.

/// The checksum of a block's bytes behind the checksum itself; `xor` is that of its kind.
pub(super) fn checksum(bytes: &[u8], xor: u32) -> u32 {
    !crc32c::crc32c(bytes) ^ xor
}
