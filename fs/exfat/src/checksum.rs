//! The checksums: all of them turn the sum by one bit to the right and add a byte.

/// Of 32 bits: of the boot region (exFAT specification, 3.4) and the up-case table (7.2.2).
pub(crate) fn checksum32<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u32 {
    let add = |sum: u32, byte: &u8| sum.rotate_right(1).wrapping_add(u32::from(*byte));
    bytes.into_iter().fold(0, add)
}

/// Of 16 bits: of a set of directory entries (6.3.3) and a file's name (7.6.4).
pub(crate) fn checksum16<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u16 {
    let add = |sum: u16, byte: &u8| sum.rotate_right(1).wrapping_add(u16::from(*byte));
    bytes.into_iter().fold(0, add)
}
