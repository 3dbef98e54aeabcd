//! The table and the bitmap with the new cluster numbers.

use diskfs_block::BlockRead;
use diskfs_clusters::resize::{Copies, Record};
use diskfs_clusters::{Allocation, Cluster, Run};

use crate::bytes::{index, len_u64};
use crate::error::{Result, device_failed};
use crate::fat::{BAD, END};

use super::OldVolume;
use super::directories::{Broken, NewPlace};
use super::layout::NewLayout;
use super::plan::contains;
use super::scan::Scan;

/// The number of entries that are computed at once: whole sectors.
const PIECE_ENTRIES: u32 = 16_384;
/// The number of bytes of the bitmap that are compared at once.
const PIECE_BYTES: usize = 64 << 10;

/// Records the changed sectors of the table.
///
/// # Errors
/// Those of [`Record::write`]; `Corrupt`.
pub(super) fn record(
    old: &OldVolume,
    place: &NewPlace<'_>,
    layout: &NewLayout,
    broken: &Broken,
    record: &mut Record<'_>,
) -> Result<()> {
    let end = Cluster(2).plus(layout.clusters);
    let mut at: u64 = 0;
    let mut first = Cluster(0);
    while at < layout.fat_bytes {
        let mut bytes = Vec::new();
        let next = first.plus(PIECE_ENTRIES);
        for number in (first.0..next.0).map(Cluster) {
            let value = match number {
                number if number < Cluster(2) => old.fat.raw(number)?,
                number if number < end => entry(old, place, broken, number)?,
                _ => 0,
            };
            bytes.extend(value.to_le_bytes());
        }
        let rest = layout.fat_bytes.saturating_sub(at);
        bytes.truncate(index(rest));
        write_changed(old, record, old.boot.fat_offset.saturating_add(at), &bytes)?;
        at = at.saturating_add(len_u64(bytes.len()));
        first = next;
    }
    Ok(())
}

/// Returns the new entry with this number.
fn entry(old: &OldVolume, place: &NewPlace<'_>, broken: &Broken, number: Cluster) -> Result<u32> {
    let bitmap = place.bitmap;
    if (bitmap.first..=bitmap.last()).contains(&number) {
        return Ok(if number == bitmap.last() {
            END
        } else {
            number.plus(1).0
        });
    }
    let Some(before) = place.renumbering.old_number(number) else {
        return Ok(0);
    };
    let (old_bitmap, _) = &old.bitmap;
    if contains(old_bitmap, before) {
        return Ok(0);
    }
    let value = match next_in(broken, before) {
        Some(value) => value,
        None => old.fat.raw(before)?,
    };
    // The entries of free clusters and of contiguous files can have any value.
    let next = place.renumbering.new_number(Cluster(value));
    Ok(match value {
        END | BAD => value,
        _ => next.map_or(0, |next| next.0),
    })
}

/// Returns the entry of a cluster of a file that was contiguous, with old numbers.
fn next_in(broken: &Broken, cluster: Cluster) -> Option<u32> {
    let (&first, &count) = broken.range(..=cluster).next_back()?;
    let run = Run {
        at: 0,
        first,
        count,
    };
    match run.last() {
        last if cluster > last => None,
        last if cluster == last => Some(END),
        _ => Some(cluster.plus(1).0),
    }
}

/// Records the changed sectors of the bitmap. Returns it.
///
/// # Errors
/// Those of [`Record::write`].
pub(super) fn record_bitmap(
    old: &OldVolume,
    scan: &Scan,
    place: &NewPlace<'_>,
    record: &mut Record<'_>,
) -> Result<Allocation> {
    let mut used = Allocation::new(place.geometry.clusters);
    let (old_bitmap, _) = &old.bitmap;
    let mut from = Cluster(2);
    while let Some((first, count)) = scan.used.used_run(from, scan.used.clusters()) {
        for cluster in (0..count).map(|nth| first.plus(nth)) {
            if let Some(new) = place.renumbering.new_number(cluster)
                && !contains(old_bitmap, cluster)
            {
                used.mark(new, true);
            }
        }
        from = first.plus(count);
    }
    for cluster in place.bitmap.clusters() {
        used.mark(cluster, true);
    }
    let mut bytes = used.bits().to_vec();
    let len_bytes = place.geometry.bytes_of(place.bitmap.count);
    bytes.resize(index(len_bytes), 0);
    let offset = place.geometry.offset_of(place.bitmap.first);
    for (nth, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
        let before = len_u64(nth).saturating_mul(len_u64(PIECE_BYTES));
        write_changed(old, record, offset.saturating_add(before), piece)?;
    }
    Ok(used)
}

/// Records the sectors that differ from the device.
fn write_changed(old: &OldVolume, record: &mut Record<'_>, offset: u64, new: &[u8]) -> Result<()> {
    let mut before = vec![0; new.len()];
    BlockRead::read_at(&*old.device, offset, &mut before).map_err(device_failed)?;
    record.write_sectors(offset, new, Copies::ONE, |sector| {
        before.get(sector.clone()) != new.get(sector)
    })
}
