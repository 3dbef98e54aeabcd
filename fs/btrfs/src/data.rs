//! Reads of file data, compared with the checksums.

use crate::bytes::{index, len_u64};
use crate::checksum::ChecksumType;
use crate::data_checksums::{self, WrongSector};
use crate::error::{Error, ErrorKind, Result};
use crate::logical::Logical;
use crate::volume::Volume;

/// The choice to compare data with its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    Yes,
    /// The file has no checksums.
    No,
}

/// The longest read through a buffer of our own instead of several reads.
const BOUNCE_BYTES: usize = 64 << 10;

/// Fills `buf` with the data from `logical` on.
pub(crate) fn read(
    volume: &Volume,
    logical: Logical,
    buf: &mut [u8],
    verify: Verify,
) -> Result<()> {
    if verify == Verify::No {
        return volume.blocks.storage.read_any(logical, buf);
    }
    let sector_bytes = volume.sector_bytes();
    let head = index(logical.0.checked_rem(sector_bytes).unwrap_or(0));
    let padded = head.saturating_add(buf.len());
    let padded = padded.next_multiple_of(index(sector_bytes).max(1));
    if head == 0 && padded == buf.len() {
        return read_sectors(volume, logical, buf);
    }
    if padded <= BOUNCE_BYTES {
        return read_part(volume, logical, head, padded, buf);
    }
    // The first and the last sector go through a buffer, what is between them does not.
    let first = if head == 0 {
        0
    } else {
        index(sector_bytes).saturating_sub(head)
    };
    let (first, rest) = buf.split_at_mut(first.min(buf.len()));
    if !first.is_empty() {
        read_part(volume, logical, head, index(sector_bytes), first)?;
    }
    let whole = rest
        .len()
        .saturating_sub(rest.len().checked_rem(index(sector_bytes)).unwrap_or(0));
    let middle = logical.plus(len_u64(first.len()));
    let (whole, last) = rest.split_at_mut(whole);
    read_sectors(volume, middle, whole)?;
    if last.is_empty() {
        return Ok(());
    }
    let end = middle.plus(len_u64(whole.len()));
    read_part(volume, end, 0, index(sector_bytes), last)
}

/// Fills `buf` through a buffer of `padded` bytes, which begins `head` bytes earlier.
fn read_part(
    volume: &Volume,
    logical: Logical,
    head: usize,
    padded: usize,
    buf: &mut [u8],
) -> Result<()> {
    let mut sectors = vec![0; padded];
    let start = Logical(logical.0.saturating_sub(len_u64(head)));
    read_sectors(volume, start, &mut sectors)?;
    let part = sectors.get(head..).unwrap_or_default();
    for (to, from) in buf.iter_mut().zip(part) {
        *to = *from;
    }
    Ok(())
}

/// Fills `buf` with whole sectors. Sectors that do not match their checksum are read from other
/// copies.
fn read_sectors(volume: &Volume, logical: Logical, buf: &mut [u8]) -> Result<()> {
    volume.blocks.storage.read_any(logical, buf)?;
    let wrong = data_checksums::compare(volume, logical, buf)?;
    for sectors in wrong {
        repair(volume, logical, buf, sectors)?;
    }
    Ok(())
}

/// Reads a sector from the other copies, until one matches the checksum.
fn repair(volume: &Volume, start: Logical, buf: &mut [u8], wrong: WrongSector) -> Result<()> {
    let storage = &volume.blocks.storage;
    let logical = start.plus(len_u64(wrong.place.start));
    let sector = buf.get_mut(wrong.place).unwrap_or_default();
    let kind: ChecksumType = volume.superblock().checksum;
    for copy in 0..storage.copies(logical)? {
        let read = storage.read_copy(logical, sector, copy);
        if read.is_ok() && kind.matches(sector, &wrong.checksum) {
            tracing::warn!(%logical, copy, "read data from another copy");
            return Ok(());
        }
    }
    let reason = format!("data of btrfs at logical {logical} does not match its checksum");
    let error = Error::new(ErrorKind::Corrupt, reason);
    Err(match storage.place(logical)? {
        (Some(place), _) => error.at(place.offset),
        _ => error,
    })
}
