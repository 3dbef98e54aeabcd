//! The checksum of footers and headers.

/// Returns the checksum of a structure whose own checksum is the four bytes at `field`: the
/// complement of the sum of all other bytes (specification, "Checksum").
pub(crate) fn checksum(bytes: &[u8], field: usize) -> u32 {
    let is_field = |n: usize| n >= field && n < field.saturating_add(4);
    let sum = bytes
        .iter()
        .enumerate()
        .filter(|(n, _)| !is_field(*n))
        .fold(0_u32, |sum, (_, byte)| sum.wrapping_add(u32::from(*byte)));
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_itself_does_not_count() {
        assert_eq!(checksum(&[1, 2, 9, 9, 9, 9, 3], 2), !6);
        assert_eq!(checksum(&[], 0), !0);
    }
}
