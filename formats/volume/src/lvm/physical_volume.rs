//! A physical volume: a device with a label, and what metadata it holds.

use diskfs_block::{BlockRead, Result};

use super::LvmId;
use super::label_header::{Found, Label};
use super::mda_header::Area;
use super::pv_header::PvHeader;
use super::raw_locn::RawLocn;
use super::volume_group::VolumeGroup;
use crate::warnings::Warnings;

/// Metadata areas that are looked at. The tools make none, one or two.
pub(super) const MAX_METADATA_AREAS: usize = 4;

/// A device that belongs to LVM.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhysicalVolume {
    /// Its identity.
    pub id: LvmId,
    /// How large its device was when it was made.
    pub device_bytes: u64,
    /// The newest whole metadata on it. `None` when it is in no group, or keeps no metadata: then
    /// another physical volume of the group tells of it.
    pub group: Option<VolumeGroup>,
    /// What is wrong with it, as sentences for the user.
    pub warnings: Vec<String>,
}

impl PhysicalVolume {
    /// The physical volume on `device`, or `None` when it is none.
    ///
    /// # Errors
    /// What the device answers when it cannot be read. What is broken is told in
    /// [`warnings`](Self::warnings), and where that hinders everything, the device is none.
    pub fn read(device: &dyn BlockRead) -> Result<Option<Self>> {
        let label = match Label::find(device)? {
            Found::Label(label) => label,
            Found::Nothing(broken) => {
                for why in broken {
                    tracing::warn!("{why}");
                }
                return Ok(None);
            }
        };
        let header = match PvHeader::from_label(&label) {
            Ok(header) => header,
            Err(why) => {
                tracing::warn!("{why}");
                return Ok(None);
            }
        };
        let mut warnings = Warnings::default();
        if device.size_bytes() < header.device_bytes {
            warnings.push(format!(
                "LVM physical volume {} was made on {} bytes, and there are only {}",
                header.id,
                header.device_bytes,
                device.size_bytes()
            ));
        }
        let group = newest(device, &header, &mut warnings)?;
        Ok(Some(Self {
            id: header.id,
            device_bytes: header.device_bytes,
            group,
            warnings: warnings.into_vec(),
        }))
    }
}

/// The newest metadata that is whole.
fn newest(
    device: &dyn BlockRead,
    header: &PvHeader,
    warnings: &mut Warnings,
) -> Result<Option<VolumeGroup>> {
    let mut newest: Option<VolumeGroup> = None;
    // The copies are nearly always the same, and one of them is enough.
    let mut seen: Vec<(u64, u32)> = Vec::new();
    for area in header.metadata_areas.iter().take(MAX_METADATA_AREAS) {
        let mda = match Area::read(device, *area)? {
            Area::Text(mda) => mda,
            Area::Empty => continue,
            Area::Broken(why) => {
                warnings.push(why);
                continue;
            }
        };
        let RawLocn {
            size_bytes,
            checksum,
            ..
        } = mda.text;
        if seen.contains(&(size_bytes, checksum)) {
            continue;
        }
        let text = mda.read_text(device)?;
        let group = text.and_then(|text| {
            VolumeGroup::from_text(&text)
                .map_err(|why| format!("LVM metadata of {}: {why}", header.id))
        });
        match group {
            Ok(group) => {
                seen.push((size_bytes, checksum));
                if newest.as_ref().is_none_or(|best| best.seqno < group.seqno) {
                    newest = Some(group);
                }
            }
            Err(why) => warnings.push(why),
        }
    }
    Ok(newest)
}
