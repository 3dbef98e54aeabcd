//! BGZF: gzip in members of at most 64 KiB, each of which says its length (SAM format
//! specification, section 4.1). `bgzip` writes it.

use diskfs_block::{Error, Result};

use crate::device_reader::DeviceReader;
use crate::units::Units;

/// The start of each member: gzip with an extra field, whose only subfield is `BC` with 2 bytes.
const HEADER_BYTES: u64 = 18;
/// The length of the decompressed data, at the end of each member.
const ISIZE_BYTES: u64 = 4;

/// Finds the members of a file; `None` if it has to be decompressed as a whole.
pub(crate) fn units(mut reader: DeviceReader) -> Result<Option<Units>> {
    let mut units = Units::default();
    loop {
        let offset = reader.position();
        let Some(header) = reader.take::<18>()? else {
            break;
        };
        let [
            0x1f,
            0x8b,
            8,
            4,
            _,
            _,
            _,
            _,
            _,
            _,
            6,
            0,
            b'B',
            b'C',
            2,
            0,
            size @ ..,
        ] = header
        else {
            return Ok(None);
        };
        let stored_bytes = u64::from(u16::from_le_bytes(size)).saturating_add(1);
        let between = stored_bytes.checked_sub(HEADER_BYTES.saturating_add(ISIZE_BYTES));
        let short = || Error::corrupt("a member of BGZF is too short").at(offset);
        reader.skip(between.ok_or_else(short)?);
        let cut = || Error::corrupt("the file ends within a member of BGZF").at(offset);
        let unpacked_bytes = u32::from_le_bytes(reader.take()?.ok_or_else(cut)?);
        if !units.push(offset, stored_bytes, unpacked_bytes.into(), 0) {
            return Ok(None);
        }
    }
    Ok(Some(units))
}
