//! The checksums of exFAT. Each step rotates the sum right by one bit and adds a byte.

/// Returns the 32-bit checksum of the boot region (exFAT specification, 3.4) or the up-case table
/// (7.2.2).
pub(crate) fn checksum32<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u32 {
    let add = |sum: u32, byte: &u8| sum.rotate_right(1).wrapping_add(u32::from(*byte));
    bytes.into_iter().fold(0, add)
}

/// Returns the 16-bit checksum of a set of directory entries (6.3.3) or a file name (7.6.4).
pub(crate) fn checksum16<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u16 {
    let add = |sum: u16, byte: &u8| sum.rotate_right(1).wrapping_add(u16::from(*byte));
    bytes.into_iter().fold(0, add)
}
