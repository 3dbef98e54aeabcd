//! Physical volumes: devices with a label, and their metadata.

use diskfs_block::{BlockRead, Result};

use super::LvmId;
use super::label_header::{Label, LabelSearch};
use super::mda_header::Area;
use super::pv_header::PvHeader;
use super::raw_locn::RawLocn;
use super::volume_group::VolumeGroup;
use crate::warnings::Warnings;

/// The largest number of metadata areas. The tools make none, one or two.
pub(super) const MAX_METADATA_AREAS: usize = 4;

/// A physical volume of LVM.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhysicalVolume {
    /// The UUID of the physical volume.
    pub id: LvmId,
    /// The size of its device when the physical volume was made, in bytes.
    pub device_bytes: u64,
    /// The newest valid metadata on it. `None` if it is in no group, or stores no metadata: then
    /// another physical volume of the group has it.
    pub group: Option<VolumeGroup>,
    /// The problems of the physical volume, as sentences for the user.
    pub warnings: Vec<String>,
}

impl PhysicalVolume {
    /// Reads the physical volume on `device`; returns `None` if it is not one.
    ///
    /// # Errors
    /// Read errors of the device. Broken structures are reported in [`warnings`](Self::warnings);
    /// without any valid label the result is `None`.
    pub fn read(device: &dyn BlockRead) -> Result<Option<Self>> {
        let label = match Label::find(device)? {
            LabelSearch::Label(label) => label,
            LabelSearch::Nothing(broken) => {
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
                "LVM physical volume {} was made on {} bytes, but the device has only {}",
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

/// Returns the newest valid metadata.
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
