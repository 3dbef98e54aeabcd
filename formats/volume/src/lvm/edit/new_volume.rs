//! New logical volumes.

use diskfs_block::{Error, ErrorKind, Result};

use super::super::LvmId;
use super::super::text::{Section, Text, Value};
use super::super::volume_group::check_name;
use super::allocation::allocate;
use super::draft::{self, Draft};
use super::origin::MetadataOrigin;
use super::segments;
use crate::edit::NewSize;

/// A new linear logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVolume {
    /// The name within the group: `root`.
    pub name: String,
    /// The UUID; random by convention.
    pub id: LvmId,
    /// The size, rounded up to whole extents.
    pub size: NewSize,
}

/// Adds a volume to a draft; returns the new draft and the size in bytes.
pub(super) fn add(
    draft: &Draft,
    new: &NewVolume,
    origin: Option<&MetadataOrigin>,
) -> Result<(Draft, u64)> {
    check(draft, new)?;
    let mut free = draft.free();
    let extents = match new.size {
        NewSize::Largest => free.count(),
        NewSize::Bytes(bytes) | NewSize::More(bytes) => draft.extents(bytes)?,
    };
    let available = free.count();
    if extents == 0 || extents > available {
        let (group, each) = (&draft.group.name, draft.group.extent_bytes);
        let needed = extents.max(1).saturating_mul(each);
        let reason = format!(
            "not enough free space in volume group {group}: {needed} bytes are needed for logical \
             volume {}, {} are free",
            new.name,
            available.saturating_mul(each)
        );
        return Err(Error::new(ErrorKind::NoSpace, reason));
    }
    let pieces = allocate(&mut free, vec![None], extents);
    let id = new.id.to_string();
    let names: Vec<String> = (1..=pieces.len()).map(|n| format!("segment{n}")).collect();
    let changed = Draft::changed(&draft.text, |tree| {
        let mut volume = Section::default();
        volume.set("id", Value::Text(Text::new(&id)));
        let marks = ["READ", "WRITE", "VISIBLE"];
        let marks = marks.map(|mark| Value::Text(Text::new(mark)));
        volume.set("status", Value::List(marks.to_vec()));
        volume.set("flags", Value::List(Vec::new()));
        if let Some(origin) = origin {
            origin.set_creation(&mut volume)?;
        }
        segments::append(&mut volume, &draft.group, &pieces, &names, None)?;
        let group = draft::group_of(tree)?;
        if group.section("logical_volumes").is_none() {
            let list = (Text::new("logical_volumes"), Section::default());
            group.sections.push(list);
        }
        let volumes = group.section_mut("logical_volumes");
        let volumes = volumes.ok_or_else(|| Error::corrupt("missing logical volumes"))?;
        volumes.sections.push((Text::new(&new.name), volume));
        Ok(())
    })?;
    Ok((changed, extents.saturating_mul(draft.group.extent_bytes)))
}

fn check(draft: &Draft, new: &NewVolume) -> Result<()> {
    check_volume_name(&new.name)?;
    if draft.group.logical_volume(&new.name).is_some() {
        let reason = format!("logical volume {} already exists", new.name);
        return Err(Error::new(ErrorKind::Exists, reason));
    }
    let mut volumes = draft.group.logical_volumes.iter();
    if volumes.any(|volume| volume.id == Some(new.id)) {
        let reason = format!("another logical volume has the UUID {}", new.id);
        return Err(Error::new(ErrorKind::Exists, reason));
    }
    Ok(())
}

/// Checks the name of a new volume: LVM reserves some for its own volumes (lvm(8), "VALID NAMES").
fn check_volume_name(name: &str) -> Result<()> {
    const RESERVED_STARTS: [&str; 2] = ["snapshot", "pvmove"];
    const RESERVED_PARTS: [&str; 16] = [
        "_cdata", "_cmeta", "_corig", "_iorig", "_mimage", "_mlog", "_pmspare", "_rimage",
        "_rmeta", "_tdata", "_tmeta", "_vdata", "_vorigin", "_wcorig", "_cvol", "_imeta",
    ];
    check_name(name).map_err(Error::invalid)?;
    let is_reserved = RESERVED_STARTS.iter().any(|start| name.starts_with(start))
        || RESERVED_PARTS.iter().any(|part| name.contains(part));
    if is_reserved {
        let reason = format!("invalid name `{name}`: LVM reserves it for its own volumes");
        return Err(Error::invalid(reason));
    }
    Ok(())
}
