//! Big data: values that do not fit in one cell. Specification, "Big data".

use diskfs_block::Result;
use diskfs_block::bytes::{le16, le32};

use crate::bins::{Bins, Cell, corrupt};

/// The number of bytes of each segment but the last.
pub(crate) const SEGMENT_BYTES: usize = 16_344;

/// The size of the big data record. Hives before 1.4 have no big data: there, and in hives of some
/// other programs, long values are in one cell.
const RECORD_BYTES: usize = 8;

/// Reads `len` bytes of a value from the cell at `offset`, or from the segments that it leads to.
/// The caller bounds `len`.
///
/// # Errors
/// `Corrupt` if there are fewer.
pub(crate) fn read(bins: &Bins, offset: u32, len: usize) -> Result<Vec<u8>> {
    let cell = bins.cell(offset)?;
    if len <= cell.len {
        return bins.read(cell, 0, len);
    }
    if len <= SEGMENT_BYTES {
        return Err(corrupt(offset, "invalid value: it is longer than its cell"));
    }
    segments(bins, cell, len)
}

fn segments(bins: &Bins, cell: Cell, len: usize) -> Result<Vec<u8>> {
    let broken = || corrupt(cell.offset, "invalid big data of a value");
    let record = bins.read(cell, 0, RECORD_BYTES)?;
    let count = le16(&record, 2).filter(|_| record.starts_with(b"db"));
    let count = count.map(usize::from).ok_or_else(broken)?;
    if count != len.div_ceil(SEGMENT_BYTES) {
        return Err(broken());
    }
    let list = le32(&record, 4).ok_or_else(broken)?;
    let mut bytes = Vec::with_capacity(len);
    for segment in bins.offsets(list, count)? {
        let rest = len.saturating_sub(bytes.len()).min(SEGMENT_BYTES);
        bins.read_onto(bins.cell(segment)?, 0, rest, &mut bytes)?;
    }
    Ok(bytes)
}
