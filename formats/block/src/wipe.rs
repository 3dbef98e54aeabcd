//! Wiping the signatures of a device.

use crate::{BlockWrite, Result};

/// The number of bytes that are wiped at both ends. All magic numbers that scanners look for are
/// there, except for backup copies that only count if a primary exists.
const WIPED_BYTES: u64 = 1 << 20;

/// Writes zeroes over the first `first_bytes`, and over the parts at both ends where tools look for
/// filesystems, RAID or partition tables. The bytes between are kept.
///
/// # Errors
/// As for [`write_zeroes`](BlockWrite::write_zeroes).
pub fn wipe_ends(device: &dyn BlockWrite, first_bytes: u64) -> Result<()> {
    let size_bytes = device.size_bytes();
    let first = WIPED_BYTES.max(first_bytes).min(size_bytes);
    let last = size_bytes.saturating_sub(WIPED_BYTES).max(first);
    device.write_zeroes(0, first)?;
    device.write_zeroes(last, size_bytes.saturating_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    /// Returns the number of zero bytes at the beginning and at the end.
    fn wiped(size: usize, first_bytes: u64) -> (usize, usize) {
        let device = Memory::new(vec![1; size]);
        wipe_ends(&device, first_bytes).unwrap();
        let bytes = device.to_vec();
        let kept = |byte: &u8| *byte != 0;
        let from = bytes.iter().position(kept).unwrap_or(size);
        let behind = bytes.iter().rev().position(kept).unwrap_or(size);
        (from, behind)
    }

    #[test]
    fn both_ends_are_wiped_and_the_middle_is_kept() {
        const MIB: usize = 1 << 20;
        assert_eq!(wiped(4 * MIB, 0), (MIB, MIB));
        assert_eq!(wiped(4 * MIB, 5 << 19), (MIB / 2 * 5, MIB));
        assert_eq!(wiped(4 * MIB, u64::MAX), (4 * MIB, 4 * MIB));
        assert_eq!(wiped(MIB + 5, 0), (MIB + 5, MIB + 5));
        assert_eq!(wiped(0, 0), (0, 0));
    }
}
