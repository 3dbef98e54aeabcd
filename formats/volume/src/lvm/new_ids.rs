//! New identities for a group and its physical volumes, as `pvchange --uuid` and `vgchange --uuid` give them.
//!
//! The label of a physical volume and the text of its group name each other, so both have to change at once. Each
//! physical volume gets its identity with a text of its own (one `seqno` more), and its label and the header of its
//! first metadata area, which lie within the same 8 KiB, are one write. So after each write the newest text fits all
//! labels. While two identities of the group are on disk, the areas that have the old one are marked as ignored.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use super::label_header::{Found, Label, SECTOR_BYTES};
use super::mda_header::{Area, HEADER_BYTES, MdaHeader};
use super::physical_volume::MAX_METADATA_AREAS;
use super::pv_header::PvHeader;
use super::raw_locn::RawLocn;
use super::text::edited;
use super::{LvmId, PvEntry, VolumeGroup};

/// Physical volumes of a group that is changed, each of which costs a text of up to 4 MiB.
const MAX_PHYSICAL_VOLUMES: usize = 256;

/// A label and a header that end within so many bytes are one write.
const MAX_WRITE_BYTES: u64 = 1 << 20;

/// The largest `seqno`: LVM counts in 32 bits.
const MAX_SEQNO: u64 = 0xffff_ffff;

/// The labels are before this byte, and no metadata area is.
const LABELS_END: u64 = 2048;

/// New identities of a group and its physical volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIds {
    /// The new identity of the group.
    pub group: LvmId,
    /// The old and the new identity of each physical volume.
    pub physical: Vec<(LvmId, LvmId)>,
}

/// A physical volume that is changed.
#[derive(Debug)]
struct Member {
    /// Its place among those of the group.
    index: usize,
    new_id: LvmId,
    label: Label,
    /// The metadata areas that hold texts, by their place on the device.
    areas: Vec<MdaHeader>,
}

/// All that is known before the first write.
#[derive(Debug)]
struct Renewal<'g> {
    group: &'g VolumeGroup,
    new_group: LvmId,
    /// The newest text of the group.
    text: String,
    /// Those with metadata areas come first.
    members: Vec<Member>,
}

/// Finds the device of a physical volume.
type Find<'f, D> = &'f dyn Fn(&PvEntry) -> Result<Option<Arc<D>>>;

impl VolumeGroup {
    /// Checks that [`change_ids`](Self::change_ids) can change the group. Nothing is written.
    ///
    /// # Errors
    /// As that before its first write.
    pub fn check_new_ids(&self, ids: &NewIds, find: Find<'_, dyn BlockRead>) -> Result<()> {
        self.renewal(ids, find).map(drop)
    }

    /// Gives the group and its physical volumes new identities. Logical volumes keep theirs. `find` gives the
    /// device of a physical volume.
    ///
    /// # Errors
    /// Before the first write: [`ErrorKind::Unsupported`] for a group that is exported, shared, read-only or marked
    /// with something unknown, or whose metadata areas have no room for another text; [`ErrorKind::NotFound`] for a
    /// missing physical volume; [`ErrorKind::Corrupt`] for metadata that LVM has to repair; what `find` answers.
    /// Later what the devices answer: the group is then as after a crash.
    pub fn change_ids(&self, ids: &NewIds, find: Find<'_, dyn BlockWrite>) -> Result<()> {
        let renewal = self.renewal(ids, &|entry| {
            let found = find(entry)?;
            Ok(found.map(|device| -> Arc<dyn BlockRead> { device }))
        })?;
        let devices = renewal.members.iter().map(|member| {
            let entry = self.physical_volumes.get(member.index);
            let found = entry.map(find).transpose()?.flatten();
            found.ok_or_else(|| Error::new(ErrorKind::NotFound, "a physical volume is missing"))
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
            let reason = format!("{count} physical volumes (more than {MAX_PHYSICAL_VOLUMES})");
            return Err(Error::unsupported(reason));
        }
        let mut text = None;
        let mut members = Vec::new();
        for (index, entry) in self.physical_volumes.iter().enumerate() {
            let mut pairs = ids.physical.iter();
            let new_id = pairs.find(|(old, _)| *old == entry.id).map(|(_, new)| *new);
            let new_id =
                new_id.ok_or_else(|| Error::invalid("a physical volume without a new UUID"))?;
            let device = find(entry)?.filter(|_| !entry.was_missing);
            let device = device.ok_or_else(|| {
                let reason = format!("physical volume {} is missing", entry.id);
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
            text: text.ok_or_else(|| Error::corrupt("the metadata has changed meanwhile"))?,
            members,
        })
    }

    /// Reads a physical volume, and the newest text where it has that.
    fn member(
        &self,
        index: usize,
        entry: &PvEntry,
        new_id: LvmId,
        device: &dyn BlockRead,
    ) -> Result<(Member, Option<String>)> {
        let Found::Label(label) = Label::find(device)? else {
            return Err(Error::corrupt("no label"));
        };
        let header = PvHeader::from_label(&label).map_err(Error::corrupt)?;
        if header.id != entry.id {
            return Err(Error::corrupt("another UUID in its label"));
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
                return Err(Error::corrupt("metadata of another group"));
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

    /// Checks that metadata areas lie outside of labels, extents and each other, so that what is written to one
    /// changes nothing else.
    fn check_places(&self, entry: &PvEntry, areas: &[MdaHeader], size_bytes: u64) -> Result<()> {
        let extents = entry.extents.saturating_mul(self.extent_bytes);
        let data = (entry.start_bytes, entry.start_bytes.saturating_add(extents));
        let mut free_from = LABELS_END;
        for area in areas {
            let end = area.start.saturating_add(area.size_bytes);
            let is_in_data = area.start < data.1 && data.0 < end;
            if area.start < free_from || end > size_bytes || is_in_data {
                let reason = "a metadata area overlaps something else";
                return Err(Error::corrupt(reason).at(area.start));
            }
            free_from = end;
        }
        Ok(())
    }

    /// Says which group has something wrong.
    fn named(&self, error: &Error) -> Error {
        let reason = format!(
            "new UUIDs of volume group {}: {}",
            self.name,
            error.reason()
        );
        with_reason(error, reason)
    }
}

/// Says which physical volume of a group has something wrong.
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
            return Err(Error::corrupt("no metadata area"));
        }
        let last = self.text_after(self.members.len())?;
        let len_bytes = u64::try_from(last.len()).unwrap_or(u64::MAX);
        let mut areas = self.members.iter().flat_map(|member| &member.areas);
        if let Some(full) = areas.find(|area| !area.has_room_for_two(len_bytes)) {
            let reason = "a metadata area has no room for another text";
            return Err(Error::unsupported(reason).at(full.start));
        }
        // What isn't to change is read from the new text as it was.
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
                "metadata that can't be changed without loss",
            ))
        }
    }

    fn seqno_after(&self, count: usize) -> Result<u64> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let seqno = self.group.seqno.checked_add(count);
        let seqno = seqno.filter(|seqno| *seqno <= MAX_SEQNO);
        seqno.ok_or_else(|| Error::unsupported("no `seqno` is left"))
    }

    /// Returns the text with the group's new identity and those of the first members, as it is stored.
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

/// A renewal with its members' devices.
struct Writer<'g> {
    renewal: Renewal<'g>,
    /// In the order of the members.
    devices: Vec<Arc<dyn BlockWrite>>,
}

impl Writer<'_> {
    fn write(&mut self) -> Result<()> {
        self.ignore_all_but_the_first()?;
        let count = self.devices.len();
        // Which area has the newest text.
        let mut newest = (0, 0);
        for (index, number) in (0..count).zip(1_usize..) {
            let text = self.renewal.text_after(number)?;
            let has_area = self.area(index, 0).is_some();
            newest = if has_area { (index, 0) } else { newest };
            let text = self.write_text(newest, &text)?;
            if has_area {
                self.switch(index, text)?;
            } else {
                // No single write changes both: a crash in between leaves the volume missing.
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

    /// The places of all areas: a member's, and among its areas.
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
        found.ok_or_else(|| Error::invalid("a metadata area is missing"))
    }

    /// Marks the areas that have the old identity for longest. The group is then what the first one says.
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
        let (member, device) = pair.ok_or_else(|| Error::invalid("a device is missing"))?;
        let sector = member.label.with_id(member.new_id);
        device.write_at(member.label.start_bytes, &sector)?;
        device.flush()
    }

    /// Writes the label and the header of a member's first area, in one write where they are near each other.
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
