//! Volume groups, parsed from the text metadata.

use std::collections::HashMap;

use super::logical_volume::LogicalVolume;
use super::pv_entry::PvEntry;
use super::segment::Segment;
use super::text::{self, Section};
use super::{LvmId, overlap, snapshot};

/// The sector size in LVM's texts, whatever the disks' sector size.
pub(super) const SECTOR_BYTES: u64 = 512;

/// A volume group, as its newest valid metadata describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeGroup {
    /// The name of the group.
    pub name: String,
    /// The UUID of the group.
    pub id: LvmId,
    /// The number of changes of its metadata.
    pub seqno: u64,
    /// The size of a physical extent, the unit of allocation, in bytes.
    pub extent_bytes: u64,
    /// True if the group is marked as exported, to be moved to another machine (`vgexport`).
    pub exported: bool,
    /// The physical volumes, in the order of the metadata.
    pub physical_volumes: Vec<PvEntry>,
    /// The logical volumes, including those that are parts of others, in the order of the metadata.
    pub logical_volumes: Vec<LogicalVolume>,
    /// The reason why only the LVM that runs it may change its metadata, if any.
    pub(super) hindrance: Option<String>,
    pub(super) pv_by_key: HashMap<String, usize>,
    pub(super) lv_by_name: HashMap<String, usize>,
}

impl VolumeGroup {
    /// Parses a text of metadata.
    ///
    /// # Errors
    /// An error in the text. An error in only one logical volume is that volume's
    /// [`problem`](LogicalVolume::problem).
    pub(super) fn from_text(text: &str) -> Result<Self, String> {
        let tree = text::parse(text)?;
        if tree.text("contents")? != "Text Format Volume Group" || tree.number("version")? != 1 {
            return Err(
                "it is not the metadata of a volume group, or of another version".to_owned(),
            );
        }
        let (name, section) = tree.sections.first().ok_or("missing volume group")?;
        let mut group = Self::from_section(&name.plain(), section)?;
        snapshot::mark(&mut group, section);
        overlap::mark(&mut group);
        Ok(group)
    }

    fn from_section(name: &str, section: &Section<'_>) -> Result<Self, String> {
        check_name(name)?;
        let extent_sectors = section.number("extent_size")?;
        let extent_bytes = extent_sectors
            .checked_mul(SECTOR_BYTES)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| format!("invalid `extent_size`: extents of {extent_sectors} sectors"))?;
        let id = section.text("id")?;
        let mut group = Self {
            name: name.to_owned(),
            id: LvmId::parse(&id).ok_or("missing or invalid `id` of the group")?,
            seqno: section.number("seqno")?,
            extent_bytes,
            exported: section.has("status", "EXPORTED"),
            hindrance: hindrance(section),
            physical_volumes: Vec::new(),
            logical_volumes: Vec::new(),
            pv_by_key: HashMap::new(),
            lv_by_name: HashMap::new(),
        };
        for (key, inner) in inner_sections(section, "physical_volumes") {
            group.add_physical(&key.plain(), inner)?;
        }
        for (name, inner) in inner_sections(section, "logical_volumes") {
            group.add_logical(&name.plain(), inner)?;
        }
        Ok(group)
    }

    fn add_physical(&mut self, key: &str, section: &Section<'_>) -> Result<(), String> {
        let named = |why| format!("physical volume {}: {why}", key.escape_debug());
        let entry = PvEntry::from_section(key, section).map_err(named)?;
        if self.physical_volumes.iter().any(|pv| pv.id == entry.id) {
            return Err(named(format!("duplicate UUID {}", entry.id)));
        }
        let index = self.physical_volumes.len();
        if self.pv_by_key.insert(key.to_owned(), index).is_some() {
            return Err(named("duplicate name".to_owned()));
        }
        self.physical_volumes.push(entry);
        Ok(())
    }

    fn add_logical(&mut self, name: &str, section: &Section<'_>) -> Result<(), String> {
        check_name(name)?;
        let volume = LogicalVolume::from_section(name, section, self.extent_bytes);
        let index = self.logical_volumes.len();
        if self.lv_by_name.insert(name.to_owned(), index).is_some() {
            return Err(format!("duplicate logical volume `{name}`"));
        }
        self.logical_volumes.push(volume);
        Ok(())
    }

    /// Returns the logical volume of that name.
    pub fn logical_volume(&self, name: &str) -> Option<&LogicalVolume> {
        let index = *self.lv_by_name.get(name)?;
        self.logical_volumes.get(index)
    }

    /// Returns the total size of its physical volumes in bytes.
    pub fn size_bytes(&self) -> u64 {
        let extents = self.physical_volumes.iter().map(|pv| pv.extents);
        let extents = extents.fold(0, u64::saturating_add);
        extents.saturating_mul(self.extent_bytes)
    }

    /// Returns the number of bytes that no logical volume uses.
    pub fn free_bytes(&self) -> u64 {
        let segments = self.logical_volumes.iter().flat_map(|lv| &lv.segments);
        let taken = segments.flat_map(Segment::areas);
        let taken = taken.filter(|(area, _)| self.pv_by_key.contains_key(&area.name));
        let extents = taken.map(|(_, extents)| extents);
        let extents = extents.fold(0, u64::saturating_add);
        self.size_bytes()
            .saturating_sub(extents.saturating_mul(self.extent_bytes))
    }
}

/// Returns why a group must not be changed: a flag that forbids it, or an unknown flag.
fn hindrance(section: &Section<'_>) -> Option<String> {
    const HARMLESS: [&str; 3] = ["RESIZEABLE", "READ", "WRITE"];
    let marks = ["status", "flags"]
        .into_iter()
        .filter_map(|list| section.value(list));
    let marks = marks.flat_map(text::Value::list);
    for mark in marks {
        let mark = mark.text().unwrap_or_default();
        if !HARMLESS.contains(&&*mark) {
            return Some(format!("the group is marked {}", shown(&mark)));
        }
    }
    if !section.has("status", "WRITE") {
        return Some("the group is read-only".to_owned());
    }
    let lock = section.text("lock_type").ok()?;
    (lock != "none").then(|| format!("the group is shared (lock type {})", shown(&lock)))
}

/// Escapes a word of the metadata for a message.
fn shown(word: &str) -> String {
    word.escape_debug().take(40).collect()
}

/// Returns the sections in the section of that name.
fn inner_sections<'s>(section: &'s Section<'s>, name: &str) -> &'s [(text::Text<'s>, Section<'s>)] {
    section
        .section(name)
        .map_or(&[][..], |inner| inner.sections.as_slice())
}

/// Checks that a name has only characters that LVM allows (lvm(8), "VALID NAMES"), so that it can
/// be printed and joined by `/`.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"+_.-".contains(&b);
    let fine = (1..=127).contains(&name.len())
        && name.bytes().all(valid)
        && !name.starts_with('-')
        && name != "."
        && name != "..";
    if fine {
        Ok(())
    } else {
        Err(format!("invalid name `{:.200}`", name.escape_debug()))
    }
}
