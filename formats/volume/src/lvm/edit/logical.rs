//! Changes of logical volumes.

use diskfs_block::{Error, ErrorKind, Result};

use super::super::VolumeGroup;
use super::super::logical_volume::LogicalVolume;
use super::super::segment::{AreaRef, Segment, SegmentKind};
use super::allocation::{Piece, PlaceOnPv, allocate};
use super::draft::{self, Draft, MAX_EXTENTS};
use super::obstacle::{changeable, extent_count, find, kinds, refused};
use super::segments;
use crate::edit::NewSize;

/// The last segment of a volume that grows.
struct Tail {
    /// The places after each stripe.
    ends: Vec<PlaceOnPv>,
    /// The size of a stripe in sectors; `None` for a linear segment.
    stripe_sectors: Option<u64>,
}

/// Extends a volume; returns the new draft and the new size in bytes.
pub(super) fn extend(draft: &Draft, name: &str, size: NewSize) -> Result<(Option<Draft>, u64)> {
    let volume = changeable(draft, name)?;
    let extents = extent_count(volume);
    let is_thin = matches!(kinds(volume).next(), Some(SegmentKind::Thin(_)));
    let wanted = match size {
        NewSize::Bytes(bytes) => Some(draft.extents(bytes)?),
        NewSize::More(bytes) => {
            let wanted = extents.saturating_add(draft.extents(bytes)?);
            Some(wanted)
        }
        NewSize::Largest if is_thin => {
            let reason = format!("thin volume {name} has no largest size");
            return Err(Error::invalid(reason).with_hint("give a size in bytes"));
        }
        NewSize::Largest => None,
    };
    if wanted.is_some_and(|wanted| wanted <= extents) {
        return Ok((None, volume.size_bytes));
    }
    if wanted.is_some_and(|wanted| wanted > MAX_EXTENTS) {
        return Err(Error::invalid(format!(
            "invalid size: more than {MAX_EXTENTS} extents"
        )));
    }
    let more = wanted.map(|wanted| wanted.saturating_sub(extents));
    let changed = match more {
        Some(more) if is_thin => extend_thin(draft, name, extents.saturating_add(more))?,
        more => match extend_in_place(draft, volume, more)? {
            Some(changed) => changed,
            None => return Ok((None, volume.size_bytes)),
        },
    };
    with_size(changed, name)
}

/// Reduces a volume; returns the new draft and the new size in bytes.
pub(super) fn reduce(draft: &Draft, name: &str, bytes: u64) -> Result<(Option<Draft>, u64)> {
    let volume = changeable(draft, name)?;
    if kinds(volume).any(|kind| matches!(kind, SegmentKind::Thin(_))) {
        return Err(refused(volume, "is a thin volume, which cannot be reduced"));
    }
    let wanted = draft.extents(bytes)?;
    if wanted == 0 {
        return Err(Error::invalid(format!(
            "cannot reduce logical volume {name} to nothing"
        )));
    }
    let wanted = rounded_to_stripes(volume, wanted);
    if wanted >= extent_count(volume) {
        return Ok((None, volume.size_bytes));
    }
    let changed = Draft::changed(&draft.text, |tree| {
        let section = draft::entry_of(tree, "logical_volumes", name)?;
        segments::cut(section, wanted)
    })?;
    with_size(changed, name)
}

/// Returns the draft with the size that the volume has in it.
fn with_size(changed: Draft, name: &str) -> Result<(Option<Draft>, u64)> {
    let volume = find(&changed.group, name)?;
    let size_bytes = volume.size_bytes;
    Ok((Some(changed), size_bytes))
}

fn extend_thin(draft: &Draft, name: &str, extents: u64) -> Result<Draft> {
    Draft::changed(&draft.text, |tree| {
        let section = draft::entry_of(tree, "logical_volumes", name)?;
        let count = draft::number(extents)?;
        segments::last_segment(section)?.set("extent_count", count);
        Ok(())
    })
}

/// Extends a linear or striped volume by a number of extents, or by all that are free. Returns
/// `None` if none are.
fn extend_in_place(
    draft: &Draft,
    volume: &LogicalVolume,
    more: Option<u64>,
) -> Result<Option<Draft>> {
    let tail = tail(&draft.group, volume)?;
    let stripes = u64::try_from(tail.ends.len()).unwrap_or(u64::MAX).max(1);
    let mut free = draft.free();
    let available = free.count();
    let each = more.unwrap_or(available).div_ceil(stripes);
    let ends = tail.ends.iter().copied().map(Some).collect();
    let pieces = allocate(&mut free, ends, each);
    let found = pieces.iter().map(|piece| piece.extents);
    let found = found.fold(0, u64::saturating_add);
    if more.is_some() && found < each {
        return Err(no_space(
            &draft.group,
            volume,
            each.saturating_mul(stripes),
            available,
        ));
    }
    if found == 0 {
        return Ok(None);
    }
    let extents = extent_count(volume);
    if found.saturating_mul(stripes).saturating_add(extents) > MAX_EXTENTS {
        let reason = format!("invalid size: more than {MAX_EXTENTS} extents");
        return Err(Error::invalid(reason));
    }
    append(draft, volume, &tail, &pieces).map(Some)
}

fn no_space(group: &VolumeGroup, volume: &LogicalVolume, needed: u64, free: u64) -> Error {
    let bytes = |extents: u64| extents.saturating_mul(group.extent_bytes);
    let stripes = match volume.segments.last().map(|last| &last.kind) {
        Some(SegmentKind::Stripes { areas, .. }) => {
            format!(" for {} stripes on different physical volumes", areas.len())
        }
        _ => String::new(),
    };
    let reason = format!(
        "not enough free space in volume group {}: {} bytes are needed{stripes}, {} are free",
        group.name,
        bytes(needed),
        bytes(free)
    );
    Error::new(ErrorKind::NoSpace, reason)
}

/// Returns where the last segment ends.
fn tail(group: &VolumeGroup, volume: &LogicalVolume) -> Result<Tail> {
    let last = volume.segments.last();
    let last = last.ok_or_else(|| refused(volume, "has no segments"))?;
    let stripe_sectors = match &last.kind {
        SegmentKind::Stripes { chunk_bytes, .. } => Some(chunk_bytes.get() >> 9),
        _ => None,
    };
    let end = |(area, extents): (&AreaRef, u64)| {
        let pv = *group.pv_by_key.get(&area.name)?;
        Some((pv, area.extent.saturating_add(extents)))
    };
    let ends = last.areas().map(end).collect::<Option<Vec<_>>>();
    let ends = ends.ok_or_else(|| refused(volume, "is not on physical volumes"))?;
    Ok(Tail {
        ends,
        stripe_sectors,
    })
}

/// Appends pieces to a volume. The first one becomes a part of the last segment if it follows it.
fn append(draft: &Draft, volume: &LogicalVolume, tail: &Tail, pieces: &[Piece]) -> Result<Draft> {
    let names = segments::new_names(&draft.text, &volume.name, pieces.len())?;
    Draft::changed(&draft.text, |tree| {
        let section = draft::entry_of(tree, "logical_volumes", &volume.name)?;
        let rest = match pieces.split_first() {
            Some((first, others))
                if first.places == tail.ends
                    && segments::lengthen(section, first.all_extents())? =>
            {
                others
            }
            _ => pieces,
        };
        segments::append(section, &draft.group, rest, &names, tail.stripe_sectors)
    })
}

/// Rounds a number of extents up so that the last stripes are complete.
fn rounded_to_stripes(volume: &LogicalVolume, wanted: u64) -> u64 {
    let contains = |segment: &&Segment| {
        let end = segment.start_extent.saturating_add(segment.extent_count);
        segment.start_extent < wanted && wanted <= end
    };
    let Some(segment) = volume.segments.iter().find(contains) else {
        return wanted;
    };
    let stripes = u64::try_from(segment.areas().count()).unwrap_or(1).max(1);
    let inside = wanted.saturating_sub(segment.start_extent);
    let rounded = inside.checked_next_multiple_of(stripes).unwrap_or(inside);
    segment.start_extent.saturating_add(rounded)
}
