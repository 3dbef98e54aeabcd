//! New UUIDs for a group and its physical volumes, as in `pvchange --uuid` and `vgchange --uuid`.
//!
//! The label of a physical volume and the text of its group refer to each other, so both have to
//! change at once. Each physical volume gets its UUID with a text of its own, whose `seqno` is
//! higher by one. Its label and the header of its first metadata area are within the same 8 KiB and
//! are written in one write. So after each write the newest text fits all labels. While both UUIDs
//! of the group are on disk, the areas with the old one are marked as ignored.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use super::label_header::{Label, LabelSearch, SECTOR_BYTES};
use super::mda_header::{Area, HEADER_BYTES, MdaHeader};
use super::physical_volume::MAX_METADATA_AREAS;
use super::pv_header::PvHeader;
use super::raw_locn::RawLocn;
use super::text::edited;
use super::{LvmId, PvEntry, VolumeGroup};

/// The largest number of physical volumes of a group that is changed. Each costs a text of up to 4
/// MiB.
const MAX_PHYSICAL_VOLUMES: usize = 256;

/// The largest range of a label and a header that are written together.
const MAX_WRITE_BYTES: u64 = 1 << 20;

/// The largest `seqno`: LVM counts in 32 bits.
const MAX_SEQNO: u64 = 0xffff_ffff;

/// The end of the labels; no metadata area is before it.
const LABELS_END: u64 = 2048;

/// The new UUIDs of a group and its physical volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIds {
    /// The new UUID of the group.
    pub group: LvmId,
    /// The old and the new UUID of each physical volume.
    pub physical: Vec<(LvmId, LvmId)>,
}

/// A physical volume that is changed.
#[derive(Debug)]
struct Member {
    /// The index among the physical volumes of the group.
    index: usize,
    new_id: LvmId,
    label: Label,
    /// The metadata areas with texts, by their offset on the device.
    areas: Vec<MdaHeader>,
}

/// The plan of the change, complete before the first write.
#[derive(Debug)]
struct Renewal<'g> {
    group: &'g VolumeGroup,
    new_group: LvmId,
    /// The newest text of the group.
    text: String,
    /// The physical volumes to change; those with metadata areas come first.
    members: Vec<Member>,
}

/// A function that finds the device of a physical volume.
type Find<'f, D> = &'f dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>;

impl VolumeGroup {
    /// Checks that [`change_ids`](Self::change_ids) can change the group, without writing.
    ///
    /// # Errors
    /// As for [`change_ids`](Self::change_ids) before its first write.
    pub fn check_new_ids(&self, ids: &NewIds, find: Find<'_, dyn BlockRead>) -> Result<()> {
        self.renewal(ids, find).map(drop)
    }

    /// Gives the group and its physical volumes new UUIDs. Logical volumes keep theirs. `find`
    /// returns the device of a physical volume.
    ///
    /// # Errors
    /// Before the first write:
    ///
    /// * [`ErrorKind::Unsupported`] for a group that is exported, shared, read-only or has unknown
    ///   flags, or whose metadata areas have no space for another text.
    /// * [`ErrorKind::NotFound`] for a missing physical volume.
    /// * [`ErrorKind::Corrupt`] for metadata that LVM has to repair.
    /// * Errors of `find`.
    ///
    /// After the first write: errors of the devices. The group is then in the same state as after a
    /// crash.
    pub fn change_ids(&self, ids: &NewIds, find: Find<'_, dyn BlockWrite>) -> Result<()> {
        let renewal = self.renewal(ids, &|entry| {
            let found = find(entry)?;
            Ok(found.map(|device| -> Arc<dyn BlockRead> { device }))
        })?;
        let devices = renewal.members.iter().map(|member| {
            let entry = self.physical_volumes.get(member.index);
            let found = entry.map(find).transpose()?.flatten();
            found.ok_or_else(|| Error::new(ErrorKind::NotFound, "missing physical volume"))
        });
        let written = devices.collect::<Result<Vec<_>>>().and_then(|devices| {
            let mut writer = Writer { renewal, devices };
            writer.write()
        });
        written.map_err(|error| self.named(&error))
    }

    fn renewal(&self, ids: &NewIds, find: Find<'_, dyn BlockRead>) -> Result<Renewal<'_>> {
        let renewal = match &self.hindrance {
            Some(why) => Err(Error::unsupported(why.clone())),
            None => self.find_members(ids, find),
        };
        let renewal = renewal.and_then(|renewal| renewal.check().map(|()| renewal));
        renewal.map_err(|error| self.named(&error))
    }

    fn find_members(&self, ids: &NewIds, find: Find<'_, dyn BlockRead>) -> Result<Renewal<'_>> {
        let count = self.physical_volumes.len();
        if count > MAX_PHYSICAL_VOLUMES {
            let reason =
                format!("too many physical volumes: {count}, at most {MAX_PHYSICAL_VOLUMES}");
            return Err(Error::unsupported(reason));
        }
        let mut text = None;
        let mut members = Vec::new();
        for (index, entry) in self.physical_volumes.iter().enumerate() {
            let mut pairs = ids.physical.iter();
            let new_id = pairs.find(|(old, _)| *old == entry.id).map(|(_, new)| *new);
            let new_id =
                new_id.ok_or_else(|| Error::invalid("missing new UUID for a physical volume"))?;
            let device = find(entry)?.filter(|_| !entry.was_missing);
            let device = device.ok_or_else(|| {
                let reason = format!("missing physical volume {}", entry.id);
                Error::new(ErrorKind::NotFound, reason)
            })?;
            let found = self.member(index, entry, new_id, &*device);
            let (member, newest) = found.map_err(|error| in_volume(entry.id, &error))?;
            text = text.or(newest);
            members.push(member);
        }
        members.sort_by_key(|member| member.areas.is_empty());
        Ok(Renewal {
            group: self,
            new_group: ids.group,
            text: text.ok_or_else(|| Error::corrupt("the metadata was changed meanwhile"))?,
            members,
        })
    }

    /// Reads a physical volume, and the newest text if it has that.
    fn member(
        &self,
        index: usize,
        entry: &PvEntry,
        new_id: LvmId,
        device: &dyn BlockRead,
    ) -> Result<(Member, Option<String>)> {
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
        for area in header.metadata_areas {
            let area = match Area::read(device, area)? {
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
                newest = Some(text);
            }
            areas.push(area);
        }
        areas.sort_by_key(|area| area.start);
        self.check_places(entry, &areas, device.size_bytes())?;
        let member = Member {
            index,
            new_id,
            label,
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

    /// Adds the name of the group to an error.
    fn named(&self, error: &Error) -> Error {
        let reason = format!(
            "cannot change the UUIDs of volume group {}: {}",
            self.name,
            error.reason()
        );
        with_reason(error, reason)
    }
}

/// Adds the physical volume to an error.
fn in_volume(id: LvmId, error: &Error) -> Error {
    with_reason(error, format!("physical volume {id}: {}", error.reason()))
}

fn with_reason(error: &Error, reason: String) -> Error {
    let mut named = Error::new(error.kind(), reason);
    if let Some(offset) = error.offset() {
        named = named.at(offset);
    }
    if let Some(hint) = error.next_step() {
        named = named.with_hint(hint.to_owned());
    }
    named
}

impl Renewal<'_> {
    /// Checks all texts before the first one is written.
    fn check(&self) -> Result<()> {
        if self
            .members
            .first()
            .is_none_or(|first| first.areas.is_empty())
        {
            return Err(Error::corrupt("missing metadata area"));
        }
        let last = self.text_after(self.members.len())?;
        let len_bytes = u64::try_from(last.len()).unwrap_or(u64::MAX);
        let mut areas = self.members.iter().flat_map(|member| &member.areas);
        if let Some(full) = areas.find(|area| !area.has_room_for_two(len_bytes)) {
            let reason = "no space left in a metadata area for another text";
            return Err(Error::unsupported(reason).at(full.start));
        }
        // Everything else must parse the same as before.
        let mut wanted = self.group.clone();
        wanted.id = self.new_group;
        wanted.seqno = self.seqno_after(self.members.len())?;
        for member in &self.members {
            if let Some(entry) = wanted.physical_volumes.get_mut(member.index) {
                entry.id = member.new_id;
            }
        }
        let read = VolumeGroup::from_text(last.trim_end_matches('\0')).map_err(Error::corrupt)?;
        if read == wanted {
            Ok(())
        } else {
            Err(Error::unsupported(
                "the metadata cannot be changed without loss",
            ))
        }
    }

    fn seqno_after(&self, count: usize) -> Result<u64> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let seqno = self.group.seqno.checked_add(count);
        let seqno = seqno.filter(|seqno| *seqno <= MAX_SEQNO);
        seqno.ok_or_else(|| Error::unsupported("`seqno` has reached its largest value"))
    }

    /// Returns the text with the group's new UUID and those of the first members, as it is stored.
    fn text_after(&self, count: usize) -> Result<String> {
        let seqno = self.seqno_after(count)?.to_string();
        let changed = self.members.get(..count).unwrap_or(&self.members);
        let new_id = |key: &str| {
            let mut changed = changed.iter();
            let found = changed.find(|member| {
                let entry = self.group.physical_volumes.get(member.index);
                entry.is_some_and(|entry| entry.key == key)
            });
            found.map(|member| member.new_id.to_string())
        };
        let text = edited(
            &self.text,
            &mut |sections, name, _| match (sections, name) {
                ([group], "id") if *group == self.group.name => Some(self.new_group.to_string()),
                ([group], "seqno") if *group == self.group.name => Some(seqno.clone()),
                ([group, list, key], "id") => {
                    let is_list = *group == self.group.name && list == "physical_volumes";
                    new_id(key).filter(|_| is_list)
                }
                _ => None,
            },
        );
        Ok(text.map_err(Error::corrupt)? + "\0")
    }
}

/// A planned change with its members' devices.
struct Writer<'g> {
    renewal: Renewal<'g>,
    /// The devices, in the order of the members.
    devices: Vec<Arc<dyn BlockWrite>>,
}

impl Writer<'_> {
    fn write(&mut self) -> Result<()> {
        self.ignore_all_but_the_first()?;
        let count = self.devices.len();
        // The area with the newest text.
        let mut newest = (0, 0);
        for (index, number) in (0..count).zip(1_usize..) {
            let text = self.renewal.text_after(number)?;
            let has_area = self.area(index, 0).is_some();
            newest = if has_area { (index, 0) } else { newest };
            let text = self.write_text(newest, &text)?;
            if has_area {
                self.switch(index, text)?;
            } else {
                // No single write can change both: a crash in between leaves the volume missing.
                self.write_label(index)?;
                self.write_header(newest, text)?;
            }
        }
        let last = self.renewal.text_after(count)?;
        for at in self.areas() {
            if at != newest {
                let text = self.write_text(at, &last)?;
                self.write_header(at, text)?;
            }
        }
        Ok(())
    }

    /// Returns all areas as pairs: the index of the member, and that of the area in it.
    fn areas(&self) -> Vec<(usize, usize)> {
        let members = self.renewal.members.iter().enumerate();
        let areas = members.flat_map(|(index, member)| {
            let areas = 0..member.areas.len();
            areas.map(move |area| (index, area))
        });
        areas.collect()
    }

    fn area(&self, index: usize, area: usize) -> Option<MdaHeader> {
        let member = self.renewal.members.get(index)?;
        member.areas.get(area).copied()
    }

    fn at(&self, (index, area): (usize, usize)) -> Result<(MdaHeader, Arc<dyn BlockWrite>)> {
        let device = self.devices.get(index).map(Arc::clone);
        let found = self.area(index, area).zip(device);
        found.ok_or_else(|| Error::invalid("missing metadata area"))
    }

    /// Marks all areas but the first as ignored, because they have the old UUID longest. The first
    /// area then determines the group.
    fn ignore_all_but_the_first(&self) -> Result<()> {
        let others = self.areas().into_iter().skip(1);
        for at in others {
            let (area, _) = self.at(at)?;
            let ignored = RawLocn {
                ignored: true,
                ..area.text
            };
            self.put_header(at, ignored)?;
        }
        Ok(())
    }

    fn write_text(&self, at: (usize, usize), text: &str) -> Result<RawLocn> {
        let (area, device) = self.at(at)?;
        let written = area.write_text(&*device, text.as_bytes())?;
        device.flush()?;
        Ok(written)
    }

    fn write_header(&mut self, at: (usize, usize), text: RawLocn) -> Result<()> {
        self.put_header(at, text)?;
        self.set_text(at, text);
        Ok(())
    }

    fn put_header(&self, at: (usize, usize), text: RawLocn) -> Result<()> {
        let (area, device) = self.at(at)?;
        let header = area.header_with(&*device, text)?;
        device.write_at(area.start, &header)?;
        device.flush()
    }

    fn set_text(&mut self, (index, area): (usize, usize), text: RawLocn) {
        let member = self.renewal.members.get_mut(index);
        if let Some(area) = member.and_then(|member| member.areas.get_mut(area)) {
            area.text = text;
        }
    }

    fn write_label(&self, index: usize) -> Result<()> {
        let pair = self.renewal.members.get(index).zip(self.devices.get(index));
        let (member, device) = pair.ok_or_else(|| Error::invalid("missing device"))?;
        let sector = member.label.with_id(member.new_id);
        device.write_at(member.label.start_bytes, &sector)?;
        device.flush()
    }

    /// Writes the label and the header of a member's first area, in one write if they are close to
    /// each other.
    fn switch(&mut self, index: usize, text: RawLocn) -> Result<()> {
        let at = (index, 0);
        let (area, device) = self.at(at)?;
        let Some(member) = self.renewal.members.get(index) else {
            return Ok(());
        };
        let start = member.label.start_bytes;
        let header_len = u64::try_from(HEADER_BYTES).unwrap_or(u64::MAX);
        let end = area.start.saturating_add(header_len);
        let len_bytes = end.saturating_sub(start);
        if len_bytes > MAX_WRITE_BYTES {
            self.write_label(index)?;
            return self.write_header(at, text);
        }
        let mut bytes = vec![0; usize::try_from(len_bytes).unwrap_or(0)];
        device.read_at(start, &mut bytes)?;
        let header = area.header_with(&*device, text)?;
        let middle = bytes.len().saturating_sub(HEADER_BYTES);
        let between = bytes.get(SECTOR_BYTES..middle).unwrap_or_default();
        let whole = [&member.label.with_id(member.new_id), between, &header].concat();
        device.write_at(start, &whole)?;
        device.flush()?;
        self.set_text(at, text);
        Ok(())
    }
}
