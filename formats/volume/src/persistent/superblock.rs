//! Checks that apply to the superblocks of thin pools and caches.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use diskfs_block::{Error, Result};

use super::BLOCK_BYTES;

/// The unit of `metadata_block_size` and `data_block_size`.
const SECTOR_BYTES: u64 = 512;

/// Checks that a block is a superblock: its magic number, and its own number 0.
///
/// # Errors
/// `Corrupt` if it is not.
pub(crate) fn check_magic(what: &str, found: u64, expected: u64, number: u64) -> Result<()> {
    if found == expected && number == 0 {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "has a {what} with invalid metadata: wrong magic or block number"
    )))
}

/// Checks the version, and that there are no incompatible features.
///
/// # Errors
/// `Unsupported` for another version or unknown features.
pub(crate) fn check_version(what: &str, version: u32, incompatible: u32) -> Result<()> {
    if matches!(version, 1 | 2) && incompatible == 0 {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "has a {what} whose metadata is of version {version} with features {incompatible:#x}, \
         which is not supported"
    )))
}

/// Returns the size of a data block in bytes from `sectors`. It must be in `range` and a multiple
/// of `step`, and the metadata block size must be the usual one.
///
/// # Errors
/// `Corrupt` for another size.
pub(crate) fn block_bytes(
    what: &str,
    sectors: u32,
    (range, step): (RangeInclusive<u32>, u32),
    of_metadata: u32,
) -> Result<NonZeroU64> {
    let bytes = |sectors: u32| u64::from(sectors).checked_mul(SECTOR_BYTES);
    bytes(sectors)
        .and_then(NonZeroU64::new)
        .filter(|_| range.contains(&sectors) && sectors.is_multiple_of(step))
        .filter(|_| bytes(of_metadata) == u64::try_from(BLOCK_BYTES).ok())
        .ok_or_else(|| {
            Error::corrupt(format!(
                "has a {what} with invalid block sizes: {sectors} sectors, {of_metadata} for \
                 metadata"
            ))
        })
}
