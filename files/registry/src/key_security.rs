//! Key security items. Specification, "Key security".

use diskfs_block::bytes::{index, le32};
use diskfs_block::{Error, Result};

use crate::bins::Bins;

const FIXED_BYTES: usize = 20;

/// The maximum size of a descriptor: two lists of up to 64 KiB each, two SIDs and a header.
const MAX_DESCRIPTOR_BYTES: u32 = 132 << 10;

/// Returns the security descriptor of the item at `offset`, as it is stored: a
/// `SECURITY_DESCRIPTOR_RELATIVE`.
///
/// # Errors
/// `Corrupt`; `Unsupported` for a descriptor that is longer than the maximum.
pub(crate) fn descriptor(bins: &Bins, offset: u32) -> Result<Vec<u8>> {
    let (cell, record) = bins.record::<FIXED_BYTES>(offset, *b"sk")?;
    let size = le32(&record, 16).unwrap_or(0);
    if size > MAX_DESCRIPTOR_BYTES {
        let reason = format!(
            "security descriptor is too large: {size} bytes, at most {MAX_DESCRIPTOR_BYTES}"
        );
        return Err(Error::unsupported(reason));
    }
    bins.read(cell, FIXED_BYTES, index(size))
}
