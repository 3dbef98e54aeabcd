//! Data sectors of a log entry: MS-VHDX 2.3.1.4.

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::log::SECTOR_BYTES;

const SIGNATURE: [u8; 4] = *b"data";

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDataSector {
    data_signature: [u8; 4],
    sequence_high: U32,
    data: [u8; 4084],
    sequence_low: U32,
}

const _: () = assert!(size_of::<RawDataSector>() == SECTOR_BYTES);

/// Returns the update in a data sector of the entry with this sequence number, without its leading
/// and trailing bytes. Returns `None` if the sector is invalid.
pub(crate) fn data(sector: &[u8], sequence_number: u64) -> Option<&[u8; 4084]> {
    let raw = RawDataSector::ref_from_bytes(sector).ok()?;
    let (high, low) = (raw.sequence_high.get(), raw.sequence_low.get());
    let number = u64::from(high).wrapping_shl(32) | u64::from(low);
    let is_valid = raw.data_signature == SIGNATURE && number == sequence_number;
    is_valid.then_some(&raw.data)
}
