//! The text of a volume's segments.

use diskfs_block::{Error, Result};

use super::super::VolumeGroup;
use super::super::text::{self, Section, Text, Value};
use super::allocation::Piece;
use super::draft::{self, segments};

/// The values of a segment that a segment of ours also has.
const KNOWN_VALUES: [&str; 6] = [
    "start_extent",
    "extent_count",
    "type",
    "stripe_count",
    "stripe_size",
    "stripes",
];

/// Appends pieces to a volume, as new segments with these names.
pub(super) fn append<'t>(
    volume: &mut Section<'t>,
    group: &'t VolumeGroup,
    pieces: &[Piece],
    names: &'t [String],
    stripe_sectors: Option<u64>,
) -> Result<()> {
    let ends = segments(volume).map(|segment| {
        let start = segment.number("start_extent").unwrap_or(0);
        start.saturating_add(segment.number("extent_count").unwrap_or(0))
    });
    let mut start = ends.max().unwrap_or(0);
    for (piece, name) in pieces.iter().zip(names) {
        let segment = new_segment(group, start, piece, stripe_sectors)?;
        start = start.saturating_add(piece.all_extents());
        volume.sections.push((Text::new(name), segment));
    }
    set_segment_count(volume)
}

/// Makes the last segment longer, if a longer one has the same meaning for LVM. Returns false
/// otherwise.
pub(super) fn lengthen(volume: &mut Section<'_>, extents: u64) -> Result<bool> {
    let last = last_segment(volume)?;
    let is_known = |(name, _): &(Text<'_>, Value<'_>)| KNOWN_VALUES.contains(&&*name.plain());
    if !last.sections.is_empty() || !last.values.iter().all(is_known) {
        return Ok(false);
    }
    let count = last.number("extent_count").unwrap_or(0);
    last.set(
        "extent_count",
        draft::number(count.saturating_add(extents))?,
    );
    Ok(true)
}

/// Returns names for new segments that the volume does not have yet.
pub(super) fn new_names(text: &str, volume: &str, count: usize) -> Result<Vec<String>> {
    let mut tree = text::parse(text).map_err(Error::corrupt)?;
    let section = draft::entry_of(&mut tree, "logical_volumes", volume)?;
    let count_now = segments(section).count();
    let names = (count_now.saturating_add(1)..).map(|number| format!("segment{number}"));
    let names = names.filter(|name| section.section(name).is_none());
    Ok(names.take(count).collect())
}

/// Returns the section of a new segment.
fn new_segment<'t>(
    group: &'t VolumeGroup,
    start: u64,
    piece: &Piece,
    stripe_sectors: Option<u64>,
) -> Result<Section<'t>> {
    let mut segment = Section::default();
    segment.set("start_extent", draft::number(start)?);
    segment.set("extent_count", draft::number(piece.all_extents())?);
    segment.set("type", Value::Text(Text::new("striped")));
    segment.set("stripe_count", draft::number(piece.stripes())?);
    if let Some(sectors) = stripe_sectors {
        segment.set("stripe_size", draft::number(sectors)?);
    }
    let mut list = Vec::new();
    for &(pv, extent) in &piece.places {
        let entry = group.physical_volumes.get(pv);
        let key = entry.map_or("", |entry| entry.key.as_str());
        list.extend([Value::Text(Text::new(key)), draft::number(extent)?]);
    }
    segment.set("stripes", Value::List(list));
    Ok(segment)
}

/// Returns the segment with the last extents.
pub(super) fn last_segment<'s, 't>(volume: &'s mut Section<'t>) -> Result<&'s mut Section<'t>> {
    let segments = volume.sections.iter_mut();
    let segments = segments.filter(|(name, _)| name.plain().starts_with("segment"));
    let last = segments.max_by_key(|(_, segment)| segment.number("start_extent").unwrap_or(0));
    last.map(|(_, segment)| segment)
        .ok_or_else(|| Error::corrupt("missing segment"))
}

fn set_segment_count(volume: &mut Section<'_>) -> Result<()> {
    let count = u64::try_from(segments(volume).count()).unwrap_or(u64::MAX);
    volume.set("segment_count", draft::number(count)?);
    Ok(())
}

/// Removes all extents of a volume's section from `wanted` on.
pub(super) fn cut(volume: &mut Section<'_>, wanted: u64) -> Result<()> {
    let start = |segment: &Section<'_>| segment.number("start_extent").unwrap_or(0);
    volume
        .sections
        .retain(|(name, segment)| !name.plain().starts_with("segment") || start(segment) < wanted);
    let last = last_segment(volume)?;
    let extents = wanted.saturating_sub(start(last));
    last.set("extent_count", draft::number(extents)?);
    set_segment_count(volume)
}
