//! Changes of the size of physical volumes.

use diskfs_block::{Error, ErrorKind, Result};

use super::super::members::Member;
use super::super::pv_entry::PvEntry;
use super::super::segment::Segment;
use super::super::volume_group::SECTOR_BYTES;
use super::super::{VolumeGroup, mda_header};
use super::draft::{self, Draft, MAX_EXTENTS};

const PVRESIZE: &str = "change it in the guest, with pvresize";

/// A metadata area that moves: its present offset, and the new one.
pub(super) type MovedArea = (u64, u64);

/// The new size of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewPvSize {
    /// The size of the device in bytes, for the label and the text.
    pub(super) device_bytes: u64,
    /// The number of extents.
    pub(super) extents: u64,
    /// The metadata area after the extents, which moves to the new end.
    pub(super) moved: Option<MovedArea>,
}

/// Plans the growth of a physical volume to the size of its device; returns `None` if no extent can
/// be added.
pub(super) fn growth(
    group: &VolumeGroup,
    entry: &PvEntry,
    member: &Member,
) -> Result<Option<NewPvSize>> {
    let device_bytes = rounded_down(member.device_bytes, SECTOR_BYTES);
    if let Some(at) = entry.boot_area_start.filter(|at| *at > entry.start_bytes) {
        let reason = format!(
            "physical volume {} has a bootloader area after its extents",
            entry.id
        );
        return Err(Error::unsupported(reason).at(at).with_hint(PVRESIZE));
    }
    let Some((from, size_bytes)) = area_after_data(entry, member)? else {
        let extents = extents_before(group, entry, device_bytes);
        return Ok((extents > entry.extents).then_some(NewPvSize {
            device_bytes,
            extents,
            moved: None,
        }));
    };
    let to = rounded_down(device_bytes.saturating_sub(size_bytes), AREA_ALIGNMENT);
    let extents = extents_before(group, entry, to);
    if extents <= entry.extents {
        return Ok(None);
    }
    if !member.areas.iter().any(|area| area.start == from) {
        let reason = format!(
            "physical volume {} has a metadata area after its extents that is kept empty",
            entry.id
        );
        return Err(Error::unsupported(reason).at(from).with_hint(PVRESIZE));
    }
    if to < from.saturating_add(size_bytes) {
        let reason = format!(
            "physical volume {} cannot grow by less than the {size_bytes} bytes of the metadata \
             area after its extents",
            entry.id
        );
        return Err(Error::unsupported(reason).at(from).with_hint(PVRESIZE));
    }
    Ok(Some(NewPvSize {
        device_bytes,
        extents,
        moved: Some((from, to)),
    }))
}

/// The alignment of a metadata area that moves, the page size of most machines.
const AREA_ALIGNMENT: u64 = 4096;

/// Returns the offset and the size of the metadata area after the extents, if there is one.
fn area_after_data(entry: &PvEntry, member: &Member) -> Result<Option<(u64, u64)>> {
    let after = member.all_areas.iter();
    let mut after = after.filter(|area| area.offset >= entry.start_bytes);
    let Some(area) = after.next() else {
        return Ok(None);
    };
    let least = u64::try_from(mda_header::HEADER_BYTES).unwrap_or(u64::MAX);
    if after.next().is_some() || area.size_bytes < least {
        let reason = format!("physical volume {} has unusual metadata areas", entry.id);
        return Err(Error::unsupported(reason)
            .at(area.offset)
            .with_hint(PVRESIZE));
    }
    Ok(Some((area.offset, area.size_bytes)))
}

/// Returns the number of extents before a byte of the device.
fn extents_before(group: &VolumeGroup, entry: &PvEntry, end_bytes: u64) -> u64 {
    let data = end_bytes.saturating_sub(entry.start_bytes);
    let extents = data.checked_div(group.extent_bytes).unwrap_or(0);
    extents.min(MAX_EXTENTS)
}

/// Plans the reduction of a physical volume to a size of its device; returns `None` if it is not
/// larger.
pub(super) fn reduction(
    group: &VolumeGroup,
    entry: &PvEntry,
    member: &Member,
    device_bytes: u64,
) -> Result<Option<NewPvSize>> {
    let device_bytes = rounded_down(device_bytes, SECTOR_BYTES);
    let extents = extents_before(group, entry, device_bytes);
    let recorded = member.header_bytes.max(entry.device_bytes.unwrap_or(0));
    if extents >= entry.extents && device_bytes >= recorded {
        return Ok(None);
    }
    if let Some((from, _)) = area_after_data(entry, member)? {
        let reason = format!(
            "physical volume {} has a metadata area after its extents",
            entry.id
        );
        return Err(Error::unsupported(reason).at(from).with_hint(PVRESIZE));
    }
    if extents == 0 {
        return Err(Error::invalid(format!(
            "cannot reduce physical volume {} to {device_bytes} bytes: no extent is left",
            entry.id
        )));
    }
    let extents = extents.min(entry.extents);
    if let Some((end, volume)) = last_use(group, entry)
        && end > extents
    {
        let place = entry
            .start_bytes
            .saturating_add(end.saturating_mul(group.extent_bytes));
        let reason = format!(
            "cannot reduce physical volume {} to {device_bytes} bytes: logical volume {volume} \
             uses extents up to byte {place}",
            entry.id
        );
        return Err(Error::new(ErrorKind::NoSpace, reason)
            .with_hint("reduce that volume first, or move its extents in the guest with pvmove"));
    }
    Ok(Some(NewPvSize {
        device_bytes,
        extents,
        moved: None,
    }))
}

/// Returns the extent after the last used one of a physical volume, and the volume that uses it.
pub(super) fn last_use<'g>(group: &'g VolumeGroup, entry: &PvEntry) -> Option<(u64, &'g str)> {
    let volumes = group.logical_volumes.iter();
    let ends = volumes.flat_map(|volume| {
        let areas = volume.segments.iter().flat_map(Segment::areas);
        let areas = areas.filter(|(area, _)| area.name == entry.key);
        areas.map(|(area, extents)| (area.extent.saturating_add(extents), volume.name.as_str()))
    });
    ends.max_by_key(|(end, _)| *end)
}

/// Returns a number of bytes rounded down to a unit.
pub(super) fn rounded_down(bytes: u64, unit: u64) -> u64 {
    bytes.saturating_sub(bytes.checked_rem(unit).unwrap_or(0))
}

/// Returns the draft in which a physical volume has another size.
pub(super) fn resized(draft: &Draft, key: &str, size: &NewPvSize) -> Result<Draft> {
    Draft::changed(&draft.text, |tree| {
        let section = draft::entry_of(tree, "physical_volumes", key)?;
        section.set("dev_size", draft::number(size.device_bytes / SECTOR_BYTES)?);
        section.set("pe_count", draft::number(size.extents)?);
        Ok(())
    })
}
