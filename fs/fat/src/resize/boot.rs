//! The boot sector, its copy, and `FSInfo` with the new size.

use diskfs_block::BlockRead;
use diskfs_clusters::resize::{Copies, Mark, Phase, Record};
use diskfs_clusters::{Geometry, Root};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::boot_sector::{FatKind, RawBootSector, RawFat32};
use crate::bytes::{index, low32, put};
use crate::error::{ErrorKind, Result, device_failed};
use crate::fs_info;

use super::OldVolume;
use super::layout::NewLayout;

/// The value of `FSI_Nxt_Free` that says nothing.
const UNKNOWN: u32 = u32::MAX;

/// Records the boot sector and the sectors that depend on it.
///
/// # Errors
/// Those of [`Record::write`].
pub(super) fn record(
    old: &OldVolume,
    layout: &NewLayout,
    new: &Geometry,
    free_clusters: u32,
    record: &mut Record<'_>,
) -> Result<()> {
    let boot = &old.boot;
    let sector_bytes = boot.geometry.sector_bytes;
    let after_backup = |info: u64| boot.backup_offset.map(|backup| backup.saturating_add(info));
    let infos = boot.fs_info_offset.into_iter();
    let copies = boot.fs_info_offset.and_then(after_backup);
    for offset in infos.chain(copies.filter(|at| *at < boot.fat_offset)) {
        if let Some(bytes) = fs_info::changed(&*old.device, offset, free_clusters, UNKNOWN)? {
            record.write(Phase::Main, offset, &bytes, Copies::ONE)?;
        }
    }
    let sector = new_sector(old, layout, new)?;
    if let Some(offset) = boot.backup_offset {
        record.zero(Phase::First, offset, sector_bytes, Copies::ONE)?;
        record.write(Phase::Backup, offset, &sector, Copies::ONE)?;
    }
    record.write(Phase::Last, 0, &sector, Copies::ONE)
}

/// Returns the first sector with the mark, which no driver takes for a filesystem.
///
/// # Errors
/// Errors of the device.
pub(super) fn marked(old: &OldVolume, mark: &Mark) -> Result<Vec<u8>> {
    let mut sector = read_sector(old)?;
    change(&mut sector, |raw| raw.fats = 0)?;
    mark.put(&mut sector);
    Ok(sector)
}

fn read_sector(old: &OldVolume) -> Result<Vec<u8>> {
    let mut sector = vec![0; index(old.boot.geometry.sector_bytes)];
    BlockRead::read_at(&*old.device, 0, &mut sector).map_err(device_failed)?;
    Ok(sector)
}

fn change(sector: &mut [u8], change: impl FnOnce(&mut RawBootSector)) -> Result<()> {
    let (raw, _) = RawBootSector::mut_from_prefix(sector).map_err(|_| ErrorKind::Corrupt)?;
    change(raw);
    Ok(())
}

fn new_sector(old: &OldVolume, layout: &NewLayout, new: &Geometry) -> Result<Vec<u8>> {
    let is_32 = old.boot.kind == FatKind::Fat32;
    let sectors = |bytes: u64| {
        let sectors = bytes.checked_div(new.sector_bytes.into());
        low32(sectors.unwrap_or(0))
    };
    let (total, each) = (sectors(layout.size_bytes), sectors(layout.fat_bytes));
    // Values that do not fit, and all values on FAT32, are in the field of 32 bits.
    let small = |value: u32| u16::try_from(value).ok().filter(|_| !is_32).unwrap_or(0);
    let mut sector = read_sector(old)?;
    change(&mut sector, |raw| {
        raw.total_sectors_16 = U16::new(small(total));
        raw.total_sectors_32 = U32::new(if small(total) == 0 { total } else { 0 });
        raw.fat_sectors_16 = U16::new(small(each));
        if let (Root::Chain { first }, Ok((mut fat32, _))) =
            (new.root, RawFat32::read_from_prefix(&raw.rest))
        {
            fat32.fat_sectors_32 = U32::new(each);
            fat32.root_cluster = U32::new(first.0);
            put(&mut raw.rest, 0, fat32.as_bytes());
        }
    })?;
    Ok(sector)
}
