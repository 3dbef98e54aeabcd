//! A key security item. Specification, "Key security".

use diskfs_block::bytes::{index, le32};
use diskfs_block::{Error, Result};

use crate::bins::Bins;

const FIXED_BYTES: usize = 20;

/// A descriptor has two lists of up to 64 KiB each, two SIDs and a header.
const MAX_DESCRIPTOR_BYTES: u32 = 132 << 10;

/// The security descriptor at `offset`, as it stands there: `SECURITY_DESCRIPTOR_RELATIVE`.
///
/// # Errors
/// `Corrupt`; `Unsupported` for one that is longer than any.
pub(crate) fn descriptor(bins: &Bins, offset: u32) -> Result<Vec<u8>> {
    let (cell, record) = bins.record::<FIXED_BYTES>(offset, *b"sk")?;
    let size = le32(&record, 16).unwrap_or(0);
    if size > MAX_DESCRIPTOR_BYTES {
        let reason = format!("a security descriptor of {size} bytes");
        return Err(Error::unsupported(reason));
    }
    bins.read(cell, FIXED_BYTES, index(size))
}
