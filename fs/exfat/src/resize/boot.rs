//! The boot regions with the new size.

use diskfs_block::BlockRead;
use diskfs_clusters::resize::{Copies, Mark, Phase, Record};
use diskfs_clusters::{Allocation, Geometry, Root};
use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use crate::allocation_bitmap::percent_in_use;
use crate::boot_sector::{CHECKED_SECTORS, REGION_SECTORS, RawBootSector, region_checksum};
use crate::bytes::{index, len_u64, low32};
use crate::error::{ErrorKind, Result, device_failed};

use super::OldVolume;
use super::layout::NewLayout;

/// Records both boot regions.
///
/// # Errors
/// Those of [`Record::write`].
pub(super) fn record(
    old: &OldVolume,
    layout: &NewLayout,
    new: &Geometry,
    used: &Allocation,
    record: &mut Record<'_>,
) -> Result<()> {
    let sector_len = index(new.sector_bytes);
    let mut region = read_sectors(old, REGION_SECTORS)?;
    let sectors = |bytes: u64| bytes.checked_div(new.sector_bytes.into()).unwrap_or(0);
    change(&mut region, |raw| {
        raw.volume_length = U64::new(sectors(layout.size_bytes));
        raw.fat_length = U32::new(low32(sectors(layout.fat_bytes)));
        raw.cluster_heap_offset = U32::new(low32(sectors(layout.heap_offset)));
        raw.cluster_count = U32::new(layout.clusters);
        if let Root::Chain { first } = new.root {
            raw.first_cluster_of_root_directory = U32::new(first.0);
        }
        raw.percent_in_use = percent_in_use(used);
    })?;
    let checked = sector_len.saturating_mul(index(CHECKED_SECTORS));
    let (covered, stored) = region
        .split_at_mut_checked(checked)
        .ok_or(ErrorKind::Corrupt)?;
    let checksum = region_checksum(covered).to_le_bytes();
    for place in stored.chunks_mut(checksum.len()) {
        place.copy_from_slice(&checksum);
    }
    let (first, rest) = region
        .split_at_checked(sector_len)
        .ok_or(ErrorKind::Corrupt)?;
    let backup = len_u64(region.len());
    record.zero(Phase::First, backup, new.sector_bytes, Copies::ONE)?;
    record.write(Phase::Main, len_u64(sector_len), rest, Copies::ONE)?;
    record.write(Phase::Backup, backup, &region, Copies::ONE)?;
    record.write(Phase::Last, 0, first, Copies::ONE)
}

/// Returns the first sector with the mark, which no driver takes for a filesystem.
///
/// # Errors
/// Errors of the device.
pub(super) fn marked(old: &OldVolume, mark: &Mark) -> Result<Vec<u8>> {
    let mut sector = read_sectors(old, 1)?;
    change(&mut sector, |raw| raw.number_of_fats = 0)?;
    mark.put(&mut sector);
    Ok(sector)
}

fn read_sectors(old: &OldVolume, count: u32) -> Result<Vec<u8>> {
    let len = old.boot.geometry.sector_bytes.saturating_mul(count);
    let mut bytes = vec![0; index(len)];
    BlockRead::read_at(&*old.device, 0, &mut bytes).map_err(device_failed)?;
    Ok(bytes)
}

fn change(sector: &mut [u8], change: impl FnOnce(&mut RawBootSector)) -> Result<()> {
    let (raw, _) = RawBootSector::mut_from_prefix(sector).map_err(|_| ErrorKind::Corrupt)?;
    change(raw);
    Ok(())
}
