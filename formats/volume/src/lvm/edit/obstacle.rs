//! The reasons why the size of a logical volume cannot be changed.

use diskfs_block::{Error, ErrorKind, Result};

use super::super::VolumeGroup;
use super::super::logical_volume::LogicalVolume;
use super::super::segment::SegmentKind;
use super::super::text::{self, Section, Value};
use super::draft::{self, Draft};

/// The marks of a volume that do not matter for its size.
const HARMLESS: [&str; 5] = ["READ", "WRITE", "VISIBLE", "FIXED_MINOR", "ACTIVATION_SKIP"];

const LVEXTEND: &str = "change it in the guest, with lvextend or lvreduce";

/// Returns the volume of that name, if its size can be changed.
pub(super) fn changeable<'d>(draft: &'d Draft, name: &str) -> Result<&'d LogicalVolume> {
    let volume = find(&draft.group, name)?;
    let tree = text::parse(&draft.text).map_err(Error::corrupt)?;
    let volumes = tree.sections.first();
    let volumes = volumes.and_then(|(_, group)| group.section("logical_volumes"));
    let volumes = volumes.ok_or_else(|| Error::corrupt("missing logical volumes"))?;
    if let Some(why) = obstacle(&draft.group, volumes, volume) {
        return Err(refused(volume, &why));
    }
    Ok(volume)
}

pub(super) fn find<'g>(group: &'g VolumeGroup, name: &str) -> Result<&'g LogicalVolume> {
    group.logical_volume(name).ok_or_else(|| {
        let reason = format!("no such logical volume: {}", name.escape_debug());
        Error::new(ErrorKind::NotFound, reason)
    })
}

pub(super) fn refused(volume: &LogicalVolume, why: &str) -> Error {
    Error::unsupported(format!("logical volume {} {why}", volume.name)).with_hint(LVEXTEND)
}

/// Returns why the size of a volume cannot be changed, if so.
fn obstacle(group: &VolumeGroup, volumes: &Section<'_>, volume: &LogicalVolume) -> Option<String> {
    if volume.has_snapshots || volume.origin.is_some() {
        return Some("is a snapshot or has snapshots".to_owned());
    }
    let kind = kinds(volume).find(|kind| !is_simple(group, kind));
    let is_thin = matches!(
        (kind, volume.segments.len()),
        (Some(SegmentKind::Thin(thin)), 1) if thin.external_origin.is_none()
    );
    if kind.is_some() && !is_thin {
        let layout = &volume.layout;
        return Some(format!(
            "is of type `{layout}`, whose size cannot be changed here"
        ));
    }
    if let Some(problem) = &volume.problem {
        return Some(problem.to_string());
    }
    let section = volumes.section(&volume.name)?;
    if let Some(mark) = unknown_mark(section) {
        return Some(format!("is marked {}", mark.escape_debug()));
    }
    if !volume.visible {
        return Some("is a part of another volume".to_owned());
    }
    let user = volumes.sections.iter().find(|(name, other)| {
        let is_name = |key: &str, word: &str| {
            // A thin volume may be smaller than its origin was or is.
            word == volume.name && key != "type" && !(is_thin && key == "origin")
        };
        name.plain() != volume.name
            && draft::segments(other).any(|segment| draft::names_any(segment, &is_name))
    });
    user.map(|(name, _)| format!("is used by {}", name.plain().escape_debug()))
}

/// Returns a mark of a volume that may matter.
fn unknown_mark(volume: &Section<'_>) -> Option<String> {
    let lists = ["status", "flags"].map(|list| volume.value(list));
    let marks = lists.into_iter().flatten().flat_map(Value::list);
    let marks = marks.map(|mark| mark.text().unwrap_or_default().into_owned());
    marks
        .into_iter()
        .find(|mark| !HARMLESS.contains(&mark.as_str()))
}

/// Returns true for segments that lie directly on physical volumes, without copies.
fn is_simple(group: &VolumeGroup, kind: &SegmentKind) -> bool {
    let areas = match kind {
        SegmentKind::Linear(area) => std::slice::from_ref(area),
        SegmentKind::Stripes { areas, .. } => areas.as_slice(),
        _ => return false,
    };
    areas
        .iter()
        .all(|area| group.pv_by_key.contains_key(&area.name))
}

pub(super) fn kinds(volume: &LogicalVolume) -> impl Iterator<Item = &SegmentKind> {
    volume.segments.iter().map(|segment| &segment.kind)
}

pub(super) fn extent_count(volume: &LogicalVolume) -> u64 {
    let counts = volume.segments.iter().map(|segment| segment.extent_count);
    counts.fold(0, u64::saturating_add)
}
