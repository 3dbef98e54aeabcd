//! The text of a group's metadata while it is changed in memory.

use diskfs_block::{Error, Result};

use super::super::VolumeGroup;
use super::super::logical_volume::{LogicalVolume, Problem};
use super::super::segment::SegmentKind;
use super::super::text::{self, Section, Value};
use super::free_extents::FreeExtents;

/// The largest number of extents of a volume: LVM counts them in 32 bits.
pub(super) const MAX_EXTENTS: u64 = 0xffff_ffff;

/// A text of metadata, and the group that it describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) group: VolumeGroup,
}

impl Draft {
    /// Parses a text that is to be changed.
    ///
    /// # Errors
    /// `Corrupt` for logical volumes with invalid metadata, whose extents are unknown;
    /// `Unsupported` for one that uses extents in an unknown way.
    pub(super) fn new(text: String) -> Result<Self> {
        let tree = text::parse(&text).map_err(Error::corrupt)?;
        let group = VolumeGroup::from_text(&text).map_err(Error::corrupt)?;
        for volume in &group.logical_volumes {
            if let Some(Problem::Corrupt(why)) = &volume.problem {
                let reason = format!("logical volume {} {why}", volume.name);
                return Err(Error::corrupt(reason).with_hint("repair the group in the guest first"));
            }
            let is_unknown = |kind: &SegmentKind| matches!(kind, SegmentKind::Unsupported(_));
            let mut kinds = volume.segments.iter().map(|segment| &segment.kind);
            if kinds.any(is_unknown) && uses_physical(&group, &tree, volume) {
                let (name, layout) = (&volume.name, &volume.layout);
                let reason = format!(
                    "logical volume {name} is of type `{layout}`, which is not supported, and uses \
                     extents"
                );
                return Err(Error::unsupported(reason));
            }
        }
        Ok(Self { text, group })
    }

    /// Returns the draft with a change of the tree, in which the group is the first section.
    ///
    /// # Errors
    /// The errors of `edit`; `Unsupported` for a text that cannot be written again.
    pub(super) fn changed<'t>(
        text: &'t str,
        edit: impl FnOnce(&mut Section<'t>) -> Result<()>,
    ) -> Result<Self> {
        let mut tree = text::parse(text).map_err(Error::corrupt)?;
        edit(&mut tree)?;
        let written = text::written(&tree);
        if text::parse(&written).as_ref() != Ok(&tree) {
            let reason = "the metadata cannot be changed without loss";
            return Err(Error::unsupported(reason));
        }
        Self::new(written)
    }

    /// Returns the extents that are free.
    pub(super) fn free(&self) -> FreeExtents {
        FreeExtents::of(&self.group)
    }

    /// Returns the number of extents for a number of bytes, rounded up.
    ///
    /// # Errors
    /// `Invalid` for more than LVM can count.
    pub(super) fn extents(&self, bytes: u64) -> Result<u64> {
        let extents = bytes.div_ceil(self.group.extent_bytes.max(1));
        if extents > MAX_EXTENTS {
            return Err(Error::invalid(format!(
                "invalid size: {bytes} bytes are more than {MAX_EXTENTS} extents"
            )));
        }
        Ok(extents)
    }
}

/// Returns true if a segment of the volume names a physical volume.
fn uses_physical(group: &VolumeGroup, tree: &Section<'_>, volume: &LogicalVolume) -> bool {
    let section = tree.sections.first().and_then(|(_, group)| {
        let volumes = group.section("logical_volumes")?;
        volumes.section(&volume.name)
    });
    section.is_some_and(|section| {
        segments(section)
            .any(|segment| names_any(segment, &|_, name| group.pv_by_key.contains_key(name)))
    })
}

/// Returns the segments of a logical volume's section.
pub(super) fn segments<'s, 't>(
    volume: &'s Section<'t>,
) -> impl Iterator<Item = &'s Section<'t>> + use<'s, 't> {
    let segments = volume.sections.iter();
    let segments = segments.filter(|(name, _)| name.plain().starts_with("segment"));
    segments.map(|(_, segment)| segment)
}

/// Returns true if a string in the section, or in those within it, matches. `matches` gets the
/// names of the value and the string.
pub(super) fn names_any(section: &Section<'_>, matches: &dyn Fn(&str, &str) -> bool) -> bool {
    let in_value = |key: &str, value: &Value<'_>| {
        let mut strings = value.list().iter().filter_map(Value::text);
        strings.any(|string| matches(key, &string))
    };
    let mut values = section.values.iter();
    let mut inner = section.sections.iter();
    values.any(|(key, value)| in_value(&key.plain(), value))
        || inner.any(|(_, inner)| names_any(inner, matches))
}

/// Returns the group's section, to change it.
///
/// # Errors
/// `Corrupt` without one.
pub(super) fn group_of<'s, 't>(tree: &'s mut Section<'t>) -> Result<&'s mut Section<'t>> {
    let first = tree.sections.first_mut();
    first
        .map(|(_, group)| group)
        .ok_or_else(|| Error::corrupt("missing volume group"))
}

/// Returns the section of an entry in a list of the group, to change it.
///
/// # Errors
/// `Corrupt` without one.
pub(super) fn entry_of<'s, 't>(
    tree: &'s mut Section<'t>,
    list: &str,
    name: &str,
) -> Result<&'s mut Section<'t>> {
    let list = group_of(tree)?.section_mut(list);
    let entry = list.and_then(|list| list.section_mut(name));
    entry.ok_or_else(|| Error::corrupt(format!("missing section `{}`", name.escape_debug())))
}

/// Returns a number as a value.
///
/// # Errors
/// `Invalid` for a number that LVM cannot store.
pub(super) fn number<'t>(number: u64) -> Result<Value<'t>> {
    let number = i64::try_from(number);
    let number = number.map_err(|_| Error::invalid("the number is too large for LVM"))?;
    Ok(Value::Number(number))
}
