//! What the superblocks of thin pools and caches have in common.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use diskfs_block::{Error, Result};

use super::BLOCK_BYTES;

/// `metadata_block_size` and `data_block_size` count sectors.
const SECTOR_BYTES: u64 = 512;

/// Checks that it is a superblock: it begins with that magic number, and says that it is block 0.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn check_magic(what: &str, found: u64, expected: u64, number: u64) -> Result<()> {
    if found == expected && number == 0 {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "has a {what} whose metadata is none"
    )))
}

/// Checks that this is a version, without features that change what it means.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_version(what: &str, version: u32, incompatible: u32) -> Result<()> {
    if matches!(version, 1 | 2) && incompatible == 0 {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "has a {what} whose metadata is of version {version} with features {incompatible:#x}, \
         which is not read"
    )))
}

/// The bytes in a block of data, which `sectors` says. It must be in `range` and a multiple of `step`,
/// and a block of metadata as large as all are.
///
/// # Errors
/// `Corrupt`.
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
                "has a {what} with blocks of {sectors} sectors, of {of_metadata} for metadata"
            ))
        })
}
