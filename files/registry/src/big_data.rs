//! Big data: what does not fit in one cell. Specification, "Big data".

use diskfs_block::Result;
use diskfs_block::bytes::{le16, le32};

use crate::bins::{Bins, Cell, corrupt};

/// What a segment holds, but for the last.
pub(crate) const SEGMENT_BYTES: usize = 16_344;

/// Hives before 1.4 have no big data; in them, and where other programs wrote, a cell of its own holds it.
const RECORD_BYTES: usize = 8;

/// The `len` bytes that the cell at `offset` has or leads to. The caller bounds `len`.
///
/// # Errors
/// `Corrupt` when there are fewer.
pub(crate) fn read(bins: &Bins, offset: u32, len: usize) -> Result<Vec<u8>> {
    let cell = bins.cell(offset)?;
    if len <= cell.len {
        return bins.read(cell, 0, len);
    }
    if len <= SEGMENT_BYTES {
        return Err(corrupt(offset, "a value is longer than its cell"));
    }
    segments(bins, cell, len)
}

fn segments(bins: &Bins, cell: Cell, len: usize) -> Result<Vec<u8>> {
    let broken = || corrupt(cell.offset, "a value's big data makes no sense");
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
