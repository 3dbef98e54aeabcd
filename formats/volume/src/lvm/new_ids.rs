//! New UUIDs for a group and its physical volumes, as in `pvchange --uuid` and `vgchange --uuid`.
//!
//! The label of a physical volume and the text of its group refer to each other, so both have to
//! change at once. Each physical volume gets its UUID with a text of its own, whose `seqno` is
//! higher by one. Its label and the header of its first metadata area are within the same 8 KiB and
//! are written in one write. So after each write the newest text fits all labels. While both UUIDs
//! of the group are on disk, the areas with the old one are marked as ignored.

use diskfs_block::{BlockRead, BlockWrite, Error, Result};

use super::label_header::SECTOR_BYTES;
use super::mda_header::HEADER_BYTES;
use super::member_writer::{MemberWriter, reading};
use super::members::{Find, Members, with_reason};
use super::raw_locn::RawLocn;
use super::text::edited;
use super::{LvmId, VolumeGroup};

/// The largest range of a label and a header that are written together.
const MAX_WRITE_BYTES: u64 = 1 << 20;

/// The new UUIDs of a group and its physical volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIds {
    /// The new UUID of the group.
    pub group: LvmId,
    /// The old and the new UUID of each physical volume.
    pub physical: Vec<(LvmId, LvmId)>,
}

/// The plan of the change, complete before the first write.
#[derive(Debug)]
struct Renewal<'g> {
    group: &'g VolumeGroup,
    ids: &'g NewIds,
    /// The physical volumes to change.
    members: Members,
}

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
    /// * `Unsupported` for a group that is exported, shared, read-only or has unknown
    ///   flags, or whose metadata areas have no space for another text.
    /// * `NotFound` for a missing physical volume.
    /// * `Corrupt` for metadata that LVM has to repair.
    /// * Errors of `find`.
    ///
    /// After the first write: errors of the devices. The group is then in the same state as after a
    /// crash.
    pub fn change_ids(&self, ids: &NewIds, find: Find<'_, dyn BlockWrite>) -> Result<()> {
        let renewal = self.renewal(ids, &reading(find))?;
        let members = renewal.members.physical.clone();
        let written = MemberWriter::open(self, members, find)
            .and_then(|devices| Writer { renewal, devices }.write());
        written.map_err(|error| self.named(&error))
    }

    fn renewal<'g>(
        &'g self,
        ids: &'g NewIds,
        find: Find<'_, dyn BlockRead>,
    ) -> Result<Renewal<'g>> {
        let renewal = Members::read(self, find).and_then(|members| {
            let group = self;
            let renewal = Renewal {
                group,
                ids,
                members,
            };
            renewal.check().map(|()| renewal)
        });
        renewal.map_err(|error| self.named(&error))
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

impl Renewal<'_> {
    /// Checks all texts before the first one is written.
    fn check(&self) -> Result<()> {
        let members = &self.members.physical;
        if members.first().is_none_or(|first| first.areas.is_empty()) {
            return Err(Error::corrupt("missing metadata area"));
        }
        for member in members {
            self.new_id(member.index)
                .ok_or_else(|| Error::invalid("missing new UUID for a physical volume"))?;
        }
        let last = self.text_after(members.len())?;
        self.members.check_room(&last)?;
        // Everything else must parse the same as before.
        let mut wanted = self.group.clone();
        wanted.id = self.ids.group;
        wanted.seqno = self.group.seqno_after(members.len())?;
        for (index, entry) in wanted.physical_volumes.iter_mut().enumerate() {
            entry.id = self.new_id(index).unwrap_or(entry.id);
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

    /// Returns the new UUID of a physical volume of the group, by its index.
    fn new_id(&self, index: usize) -> Option<LvmId> {
        let entry = self.group.physical_volumes.get(index)?;
        let mut pairs = self.ids.physical.iter();
        let found = pairs.find(|(old, _)| *old == entry.id);
        found.map(|(_, new)| *new)
    }

    /// Returns the text with the group's new UUID and those of the first members, as it is stored.
    fn text_after(&self, count: usize) -> Result<String> {
        let seqno = self.group.seqno_after(count)?.to_string();
        let members = &self.members.physical;
        let changed = members.get(..count).unwrap_or(members);
        let new_id = |key: &str| {
            let index = *self.group.pv_by_key.get(key)?;
            let mut changed = changed.iter();
            let member = changed.find(|member| member.index == index)?;
            self.new_id(member.index).map(|id| id.to_string())
        };
        let text = edited(
            &self.members.text,
            &mut |sections, name, _| match (sections, name) {
                ([group], "id") if *group == self.group.name => Some(self.ids.group.to_string()),
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
    devices: MemberWriter,
}

impl Writer<'_> {
    fn write(&mut self) -> Result<()> {
        self.ignore_all_but_the_first()?;
        let count = self.devices.members.len();
        // The area with the newest text.
        let mut newest = (0, 0);
        for (index, number) in (0..count).zip(1_usize..) {
            let text = self.renewal.text_after(number)?;
            let has_area = self.devices.at((index, 0)).is_ok();
            newest = if has_area { (index, 0) } else { newest };
            let text = self.devices.write_text(newest, &text)?;
            if has_area {
                self.switch(index, text)?;
            } else {
                // No single write can change both: a crash in between leaves the volume missing.
                self.devices.write_label(index, &self.label(index)?)?;
                self.devices.write_header(newest, text)?;
            }
        }
        let last = self.renewal.text_after(count)?;
        for at in self.devices.areas() {
            if at != newest {
                let text = self.devices.write_text(at, &last)?;
                self.devices.write_header(at, text)?;
            }
        }
        Ok(())
    }

    /// Marks all areas but the first as ignored, because they have the old UUID longest. The first
    /// area then determines the group.
    fn ignore_all_but_the_first(&self) -> Result<()> {
        let others = self.devices.areas().into_iter().skip(1);
        for at in others {
            let (area, _) = self.devices.at(at)?;
            let ignored = RawLocn {
                ignored: true,
                ..area.text
            };
            self.devices.put_header(at, ignored)?;
        }
        Ok(())
    }

    /// Returns the sector of a member's label with its new UUID.
    fn label(&self, index: usize) -> Result<Vec<u8>> {
        let member = self.devices.members.get(index);
        let new = member.and_then(|member| {
            let id = self.renewal.new_id(member.index)?;
            Some(member.label.with_id(id))
        });
        new.ok_or_else(|| Error::invalid("missing physical volume"))
    }

    /// Writes the label and the header of a member's first area, in one write if they are close to
    /// each other.
    fn switch(&mut self, index: usize, text: RawLocn) -> Result<()> {
        let at = (index, 0);
        let (area, device) = self.devices.at(at)?;
        let label = self.label(index)?;
        let Some(member) = self.devices.members.get(index) else {
            return Ok(());
        };
        let start = member.label.start_bytes;
        let header_len = u64::try_from(HEADER_BYTES).unwrap_or(u64::MAX);
        let end = area.start.saturating_add(header_len);
        let len_bytes = end.saturating_sub(start);
        if len_bytes > MAX_WRITE_BYTES {
            self.devices.write_label(index, &label)?;
            return self.devices.write_header(at, text);
        }
        let mut bytes = vec![0; usize::try_from(len_bytes).unwrap_or(0)];
        device.read_at(start, &mut bytes)?;
        let header = area.header_with(&*device, text)?;
        let middle = bytes.len().saturating_sub(HEADER_BYTES);
        let between = bytes.get(SECTOR_BYTES..middle).unwrap_or_default();
        let whole = [&label, between, &header].concat();
        device.write_at(start, &whole)?;
        device.flush()?;
        self.devices.set_text(at, text);
        Ok(())
    }
}
