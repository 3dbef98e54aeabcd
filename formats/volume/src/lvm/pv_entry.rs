//! Physical volumes in the text metadata of their group.

use std::borrow::Cow;

use super::LvmId;
use super::text::Section;
use super::volume_group::SECTOR_BYTES;

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PvEntry {
    /// The UUID of the physical volume.
    pub id: LvmId,
    /// The path at which it was last seen, on the machine that wrote the metadata: `/dev/sdb`.
    pub device_hint: Option<String>,
    /// The size of its device in bytes, if the metadata has it.
    pub device_bytes: Option<u64>,
    /// True if it was missing when the group was last changed. Its contents are then out of date.
    pub was_missing: bool,
    /// The name within the text: `pv0`.
    pub(super) key: String,
    /// The offset of its first extent in bytes.
    pub(super) start_bytes: u64,
    pub(super) extents: u64,
    /// The offset of its bootloader area in bytes, if it has one (`pvcreate --bootloaderareasize`).
    pub(super) boot_area_start: Option<u64>,
    /// True if new extents may be allocated on it (`pvchange --allocatable`).
    pub(super) allocatable: bool,
}

impl PvEntry {
    /// Returns the number of its extents.
    pub const fn extent_count(&self) -> u64 {
        self.extents
    }

    /// Parses the entry's section.
    ///
    /// # Errors
    /// Missing or invalid fields.
    pub(super) fn from_section(key: &str, section: &Section<'_>) -> Result<Self, String> {
        let id = section.text("id")?;
        let id =
            LvmId::parse(&id).ok_or_else(|| format!("invalid UUID `{}`", id.escape_debug()))?;
        let pe_start = section.number("pe_start")?;
        let hint = section.text("device").ok();
        let sectors = section.number("dev_size").ok();
        let boot_area = section.number("ba_start").ok();
        Ok(Self {
            id,
            device_hint: hint.map(Cow::into_owned),
            device_bytes: sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)),
            was_missing: ["status", "flags"]
                .iter()
                .any(|list| section.has(list, "MISSING")),
            key: key.to_owned(),
            start_bytes: pe_start.checked_mul(SECTOR_BYTES).ok_or_else(|| {
                format!("invalid `pe_start`: sector {pe_start} is past the end of any device")
            })?,
            extents: section.number("pe_count")?,
            boot_area_start: boot_area.map(|sector| sector.saturating_mul(SECTOR_BYTES)),
            allocatable: section.has("status", "ALLOCATABLE"),
        })
    }
}
