//! The checksum of an inode: `i_checksum_lo`, and `i_checksum_hi` if the inode is large enough.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Checksums".

use super::raw::{CHECKSUM_LO, extra};
use super::{Inode, low16};
use crate::bytes::{index, join32, le16, put};
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, Result, Structure};

/// The size of either half.
const HALF_BYTES: usize = 2;

/// Verifies the checksum in the inode's bytes, if the filesystem has checksums. It covers the whole
/// inode, with zeroes in place of the checksum.
pub(super) fn verify(inode: &Inode, bytes: &[u8]) -> Result<()> {
    let Some(seed) = inode.checksum_seed else {
        return Ok(());
    };
    let (expected, actual) = if has_high_half(bytes) {
        let high = le16(bytes, extra::I_CHECKSUM_HI).unwrap_or(0);
        (sum(seed, bytes), join32(high, low(bytes)))
    } else {
        (u32::from(low16(sum(seed, bytes))), u32::from(low(bytes)))
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

fn low(bytes: &[u8]) -> u16 {
    le16(bytes, CHECKSUM_LO).unwrap_or(0)
}

/// Computes the checksum. In a small inode only its lower half is stored.
fn sum(seed: ChecksumSeed, bytes: &[u8]) -> u32 {
    let low_end = CHECKSUM_LO.saturating_add(HALF_BYTES);
    let before = bytes.get(..CHECKSUM_LO).unwrap_or_default();
    if !has_high_half(bytes) {
        let after = bytes.get(low_end..).unwrap_or_default();
        return seed.of(&[before, &[0; HALF_BYTES], after]);
    }
    let high_end = extra::I_CHECKSUM_HI.saturating_add(HALF_BYTES);
    let between = bytes.get(low_end..extra::I_CHECKSUM_HI).unwrap_or_default();
    let after = bytes.get(high_end..).unwrap_or_default();
    seed.of(&[before, &[0; HALF_BYTES], between, &[0; HALF_BYTES], after])
}

/// Writes the checksum into the inode's bytes.
pub(super) fn update(seed: ChecksumSeed, bytes: &mut [u8]) {
    let [a, b, c, d] = sum(seed, bytes).to_le_bytes();
    let halves = if has_high_half(bytes) {
        [
            Some((CHECKSUM_LO, [a, b])),
            Some((extra::I_CHECKSUM_HI, [c, d])),
        ]
    } else {
        [Some((CHECKSUM_LO, [a, b])), None]
    };
    for (offset, half) in halves.into_iter().flatten() {
        put(bytes, offset, &half);
    }
}

/// Returns true if `i_extra_isize` reaches past `i_checksum_hi`.
fn has_high_half(bytes: &[u8]) -> bool {
    const NEEDED: u16 = 4;
    le16(bytes, index(extra::I_EXTRA_ISIZE)).is_some_and(|extra_isize| extra_isize >= NEEDED)
}
