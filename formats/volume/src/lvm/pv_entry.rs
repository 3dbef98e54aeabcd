//! A physical volume, as the text metadata of its group has it.

use std::borrow::Cow;

use super::LvmId;
use super::text::Section;
use super::volume_group::SECTOR_BYTES;

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PvEntry {
    /// Its identity.
    pub id: LvmId,
    /// Where it was seen last, on the machine that wrote the metadata: `/dev/sdb`.
    pub device_hint: Option<String>,
    /// The size of the device that it is on, where the metadata tells it.
    pub device_bytes: Option<u64>,
    /// It was not there when the group changed last. What is on it is out of date.
    pub was_missing: bool,
    /// Its name within the text: `pv0`.
    pub(super) key: String,
    /// Where its first extent begins.
    pub(super) start_bytes: u64,
    pub(super) extents: u64,
}

impl PvEntry {
    /// # Errors
    /// What is missing or makes no sense.
    pub(super) fn from_section(key: &str, section: &Section<'_>) -> Result<Self, String> {
        let id = section.text("id")?;
        let id = LvmId::parse(&id).ok_or_else(|| format!("`{}` is no UUID", id.escape_debug()))?;
        let pe_start = section.number("pe_start")?;
        let hint = section.text("device").ok();
        let sectors = section.number("dev_size").ok();
        Ok(Self {
            id,
            device_hint: hint.map(Cow::into_owned),
            device_bytes: sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)),
            was_missing: ["status", "flags"]
                .iter()
                .any(|list| section.has(list, "MISSING")),
            key: key.to_owned(),
            start_bytes: pe_start
                .checked_mul(SECTOR_BYTES)
                .ok_or_else(|| format!("begins at sector {pe_start}"))?,
            extents: section.number("pe_count")?,
        })
    }
}
