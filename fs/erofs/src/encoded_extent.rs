//! Extent records, which replace the indexes of clusters: `struct z_erofs_extent`.
//!
//! A record has 4 to 32 bytes: short ones have only the stored length, or also an address of 32
//! bits, and describe one cluster each. Longer ones have the offset in the file, and are sorted.

use std::sync::PoisonError;

use diskfs_block::bytes::{index, le32};

use crate::error::{Result, corrupt};
use crate::extent::{Algorithm, Encoded, EncodedPlace};
use crate::inode::Inode;
use crate::map_header::{HEADER_BYTES, MapHeader, Tail};
use crate::mapped::{Mapped, Source};
use crate::place::Place;
use crate::volume::Volume;

/// The bits of `plen`: the length, whether the extent is a part of the data, and the algorithm plus
/// one.
const LEN_MASK: u32 = (2 << 20) - 1;
const PARTIAL: u32 = 1 << 27;
const FORMAT_SHIFT: u32 = 28;

/// A record.
#[derive(Debug, Clone, Copy)]
struct Record {
    start: u64,
    stored: u32,
    address: u64,
    /// The offset in the file at which the next record begins.
    end: u64,
    is_last: bool,
}

/// Returns the extent that contains the byte `offset`.
pub(crate) fn map(
    volume: &Volume,
    inode: &Inode,
    header: &MapHeader,
    count: u64,
    offset: u64,
) -> Result<Mapped> {
    let size = header.record_bytes();
    let first = inode.body().aligned(8).after(HEADER_BYTES).aligned(size);
    let record = if size >= 16 {
        search(volume, inode, first, size, count, offset)?
    } else {
        of_cluster(volume, inode, header, first, offset)?
    };
    let len = record.end.saturating_sub(record.start);
    let source = if record.is_last && matches!(header.tail, Tail::FragmentRecord) {
        let high = if size > 4 { record.address } else { 0 };
        Source::Fragment(u64::from(record.stored) | high.wrapping_shl(32))
    } else if record.stored & LEN_MASK == 0 {
        Source::Hole
    } else {
        Source::Encoded(encoded(volume, header, record, len)?)
    };
    Ok(Mapped {
        start: record.start,
        len,
        source,
    })
}

fn encoded(volume: &Volume, header: &MapHeader, record: Record, len: u64) -> Result<Encoded> {
    let stored_bytes = record.stored & LEN_MASK;
    let is_aligned = volume.offset_in_block(record.address | u64::from(stored_bytes)) == 0;
    let algorithm = match record.stored.wrapping_shr(FORMAT_SHIFT).checked_sub(1) {
        Some(number) => {
            Algorithm::from_number(volume.superblock.algorithms, number, record.address)?
        }
        None if header.is_interlaced() && is_aligned => Algorithm::Interlaced,
        None => Algorithm::Shifted,
    };
    Ok(Encoded {
        place: EncodedPlace::Device(record.address),
        stored_bytes,
        algorithm,
        start: record.start,
        len,
        is_partial: record.stored & PARTIAL != 0,
    })
}

/// Finds the record of a cluster, for records without an offset in the file.
fn of_cluster(
    volume: &Volume,
    inode: &Inode,
    header: &MapHeader,
    first: Place,
    offset: u64,
) -> Result<Record> {
    let number = offset.wrapping_shr(header.cluster_bits);
    let byte_of = |number: u64| number.wrapping_shl(header.cluster_bits);
    let (stored, address) = if header.record_bytes() == 4 {
        without_address(volume, header, first, number)?
    } else {
        let bytes: [u8; 8] = volume.metadata(first.after(number.saturating_mul(8)))?;
        let part = |at| le32(&bytes, at).unwrap_or_default();
        (part(0), part(4).into())
    };
    let end = byte_of(number.saturating_add(1));
    Ok(Record {
        start: byte_of(number),
        stored,
        address,
        end: end.min(inode.size_bytes),
        is_last: end >= inode.size_bytes,
    })
}

/// Returns the stored length and the address of a cluster, for records that have only lengths: the
/// address is the sum of the lengths before it. A read in order goes on where the last one stopped.
fn without_address(
    volume: &Volume,
    header: &MapHeader,
    first: Place,
    number: u64,
) -> Result<(u32, u64)> {
    let start = u64::from_le_bytes(volume.metadata(first)?);
    let last = &header.last_record;
    let kept = *last.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut at, mut sum) = if kept.0 <= number { kept } else { (0, 0) };
    loop {
        let place = first.after(8).after(at.saturating_mul(4));
        let stored = u32::from_le_bytes(volume.metadata(place)?);
        if at >= number {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = (at, sum);
            return Ok((stored, start.saturating_add(sum)));
        }
        sum = sum.saturating_add((stored & LEN_MASK).into());
        at = at.saturating_add(1);
    }
}

/// Searches the record with a byte, for records that have offsets.
fn search(
    volume: &Volume,
    inode: &Inode,
    first: Place,
    size: u64,
    count: u64,
    offset: u64,
) -> Result<Record> {
    let (mut low, mut high) = (0, count);
    let mut found: Option<Record> = None;
    let mut end = inode.size_bytes;
    while low < high {
        let middle = low.saturating_add(high.saturating_sub(low).wrapping_div(2));
        let place = first.after(middle.saturating_mul(size));
        let record = read(volume, place, size)?;
        if record.start > offset {
            high = middle;
            end = end.min(record.start);
        } else {
            low = middle.saturating_add(1);
            found = Some(record);
        }
    }
    let Some(record) = found else {
        return Err(corrupt(
            "invalid extents: none for the start of the file",
            first.at,
        ));
    };
    Ok(Record {
        end,
        is_last: low >= count,
        ..record
    })
}

fn read(volume: &Volume, place: Place, size: u64) -> Result<Record> {
    let mut bytes = [0; 32];
    let bytes = bytes.get_mut(..index(size)).unwrap_or_default();
    volume.read_metadata(place, bytes)?;
    let part = |at| u64::from(le32(bytes, at).unwrap_or_default());
    Ok(Record {
        stored: le32(bytes, 0).unwrap_or_default(),
        address: part(4) | part(8).wrapping_shl(32),
        // Records of 16 bytes end before the high half.
        start: part(12) | part(16).wrapping_shl(32),
        end: 0,
        is_last: false,
    })
}
