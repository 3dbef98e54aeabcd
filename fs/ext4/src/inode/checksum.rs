//! The checksum of an inode: `i_checksum_lo`, and `i_checksum_hi` where the inode reaches so far.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Checksums".

use super::raw::{CHECKSUM_LO, extra};
use super::{Inode, low16};
use crate::bytes::{index, join32, le16};
use crate::error::{Corrupt, Result, Structure};

/// The length of either half.
const HALF_BYTES: usize = 2;

/// Checks the inode's bytes against the checksum in them, if the filesystem has checksums. The
/// checksum is of the whole inode, with zeroes in its own place.
pub(super) fn verify(inode: &Inode, bytes: &[u8]) -> Result<()> {
    let Some(seed) = inode.checksum_seed else {
        return Ok(());
    };
    let low_end = CHECKSUM_LO.saturating_add(HALF_BYTES);
    let before = bytes.get(..CHECKSUM_LO).unwrap_or_default();
    let low = le16(bytes, CHECKSUM_LO).unwrap_or(0);
    let high_end = extra::I_CHECKSUM_HI.saturating_add(HALF_BYTES);
    let (expected, actual) = if has_high_half(bytes) {
        let between = bytes.get(low_end..extra::I_CHECKSUM_HI).unwrap_or_default();
        let after = bytes.get(high_end..).unwrap_or_default();
        let high = le16(bytes, extra::I_CHECKSUM_HI).unwrap_or(0);
        let expected = seed.of(&[before, &[0; HALF_BYTES], between, &[0; HALF_BYTES], after]);
        (expected, join32(high, low))
    } else {
        let after = bytes.get(low_end..).unwrap_or_default();
        let expected = seed.of(&[before, &[0; HALF_BYTES], after]);
        (u32::from(low16(expected)), u32::from(low))
    };
    if expected == actual {
        return Ok(());
    }
    Err(Corrupt::Checksum {
        structure: Structure::Inode(inode.number),
        expected,
        actual,
    }
    .into())
}

/// Whether `i_extra_isize` reaches past `i_checksum_hi`.
fn has_high_half(bytes: &[u8]) -> bool {
    const NEEDED: u16 = 4;
    le16(bytes, index(extra::I_EXTRA_ISIZE)).is_some_and(|extra_isize| extra_isize >= NEEDED)
}
