//! The physical volumes of a group whose metadata is to be changed: labels, and metadata areas with
//! their texts. Everything that prevents a change is found here, before the first write.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};

use super::label_header::{Label, LabelSearch};
use super::mda_header::{Area, MdaHeader};
use super::physical_volume::MAX_METADATA_AREAS;
use super::pv_header::{DiskLocn, PvHeader};
use super::raw_locn::RawLocn;
use super::{LvmId, PvEntry, VolumeGroup};

/// The largest number of physical volumes of a group that is changed. Each costs a text of up to 4
/// MiB.
pub(super) const MAX_PHYSICAL_VOLUMES: usize = 256;

/// The largest `seqno`: LVM counts in 32 bits.
const MAX_SEQNO: u64 = 0xffff_ffff;

/// The end of the labels; no metadata area is before it.
const LABELS_END: u64 = 2048;

/// A function that finds the device of a physical volume.
pub(super) type Find<'f, D> = &'f dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>;

/// A physical volume of a group.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// The index among the physical volumes of the group.
    pub(super) index: usize,
    pub(super) label: Label,
    /// The size that the header records, in bytes.
    pub(super) header_bytes: u64,
    /// The size of its device, in bytes.
    pub(super) device_bytes: u64,
    /// The metadata areas with texts, by their offset on the device.
    pub(super) areas: Vec<MdaHeader>,
    /// All metadata areas of its header, also those that are kept empty.
    pub(super) all_areas: Vec<DiskLocn>,
}

/// The physical volumes of a group, with the newest text of its metadata.
#[derive(Debug, Clone)]
pub(super) struct Members {
    /// The text without its final NUL.
    pub(super) text: String,
    /// The location of the text in one of the areas, with its length and checksum.
    pub(super) newest: RawLocn,
    /// The physical volumes; those with metadata areas come first.
    pub(super) physical: Vec<Member>,
}

impl Members {
    /// Reads the physical volumes of a group.
    ///
    /// # Errors
    /// `Unsupported` for a group that must not be changed; `NotFound` for a missing physical
    /// volume; `Corrupt` for metadata that LVM has to repair; errors of `find`.
    pub(super) fn read(group: &VolumeGroup, find: Find<'_, dyn BlockRead>) -> Result<Self> {
        if let Some(why) = &group.hindrance {
            return Err(Error::unsupported(why.clone()));
        }
        let count = group.physical_volumes.len();
        if count > MAX_PHYSICAL_VOLUMES {
            let reason =
                format!("too many physical volumes: {count}, at most {MAX_PHYSICAL_VOLUMES}");
            return Err(Error::unsupported(reason));
        }
        let mut newest = None;
        let mut physical = Vec::new();
        for (index, entry) in group.physical_volumes.iter().enumerate() {
            let device = find(entry)?.filter(|_| !entry.was_missing);
            let device = device.ok_or_else(|| {
                let reason = format!("missing physical volume {}", entry.id);
                Error::new(ErrorKind::NotFound, reason)
            })?;
            let found = group.member(index, entry, &*device);
            let (member, text) = found.map_err(|error| in_volume(entry.id, &error))?;
            newest = newest.or(text);
            physical.push(member);
        }
        physical.sort_by_key(|member| member.areas.is_empty());
        let (newest, text) =
            newest.ok_or_else(|| Error::corrupt("the metadata was changed meanwhile"))?;
        Ok(Self {
            text,
            newest,
            physical,
        })
    }

    /// Checks that each area has space for the text, which is as it is stored.
    ///
    /// # Errors
    /// `Unsupported` if an area has no space for a second text.
    pub(super) fn check_room(&self, text: &str) -> Result<()> {
        let len_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let mut areas = self.physical.iter().flat_map(|member| &member.areas);
        match areas.find(|area| !area.has_room_for_two(len_bytes)) {
            Some(full) => {
                let reason = "no space left in a metadata area for another text";
                Err(Error::unsupported(reason).at(full.start))
            }
            None => Ok(()),
        }
    }
}

impl VolumeGroup {
    /// Returns the `seqno` after some changes.
    pub(super) fn seqno_after(&self, changes: usize) -> Result<u64> {
        let changes = u64::try_from(changes).unwrap_or(u64::MAX);
        let seqno = self.seqno.checked_add(changes);
        let seqno = seqno.filter(|seqno| *seqno <= MAX_SEQNO);
        seqno.ok_or_else(|| Error::unsupported("`seqno` has reached its largest value"))
    }

    /// Reads a physical volume, and the newest text if it has that.
    fn member(
        &self,
        index: usize,
        entry: &PvEntry,
        device: &dyn BlockRead,
    ) -> Result<(Member, Option<(RawLocn, String)>)> {
        let LabelSearch::Label(label) = Label::find(device)? else {
            return Err(Error::corrupt("missing LVM label"));
        };
        let header = PvHeader::from_label(&label).map_err(Error::corrupt)?;
        if header.id != entry.id {
            return Err(Error::corrupt(
                "invalid LVM label: it has another UUID than the group's metadata",
            ));
        }
        if header.metadata_areas.len() > MAX_METADATA_AREAS {
            return Err(Error::unsupported("too many metadata areas"));
        }
        let mut newest = None;
        let mut areas = Vec::new();
        for area in &header.metadata_areas {
            let area = match Area::read(device, *area)? {
                Area::Text(area) => area,
                Area::Empty => continue,
                Area::Broken(why) => return Err(Error::corrupt(why)),
            };
            let text = area.read_text(device)?.map_err(Error::corrupt)?;
            let group = Self::from_text(&text).map_err(Error::corrupt)?;
            if group.id != self.id {
                return Err(Error::corrupt("the metadata is that of another group"));
            }
            if group == *self {
                newest = Some((area.text, text));
            }
            areas.push(area);
        }
        areas.sort_by_key(|area| area.start);
        self.check_places(entry, &areas, device.size_bytes())?;
        let member = Member {
            index,
            label,
            header_bytes: header.device_bytes,
            device_bytes: device.size_bytes(),
            all_areas: header.metadata_areas,
            areas,
        };
        Ok((member, newest))
    }

    /// Checks that metadata areas do not overlap labels, extents or each other, so that writing to
    /// one changes nothing else.
    fn check_places(&self, entry: &PvEntry, areas: &[MdaHeader], size_bytes: u64) -> Result<()> {
        let extents = entry.extents.saturating_mul(self.extent_bytes);
        let data = (entry.start_bytes, entry.start_bytes.saturating_add(extents));
        let mut free_from = LABELS_END;
        for area in areas {
            let end = area.start.saturating_add(area.size_bytes);
            let is_in_data = area.start < data.1 && data.0 < end;
            if area.start < free_from || end > size_bytes || is_in_data {
                let reason = "a metadata area overlaps a label, extents or another metadata area";
                return Err(Error::corrupt(reason).at(area.start));
            }
            free_from = end;
        }
        Ok(())
    }
}

/// Adds the physical volume to an error.
fn in_volume(id: LvmId, error: &Error) -> Error {
    with_reason(error, format!("physical volume {id}: {}", error.reason()))
}

/// Returns an error with another reason, at the same place and with the same hint.
pub(super) fn with_reason(error: &Error, reason: String) -> Error {
    let mut named = Error::new(error.kind(), reason);
    if let Some(offset) = error.offset() {
        named = named.at(offset);
    }
    if let Some(hint) = error.next_step() {
        named = named.with_hint(hint.to_owned());
    }
    named
}
