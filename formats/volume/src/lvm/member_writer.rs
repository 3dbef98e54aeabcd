//! Writing to the metadata areas and labels of a group's physical volumes, one step at a time. Each
//! step is durable before the next one begins.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use super::VolumeGroup;
use super::mda_header::MdaHeader;
use super::members::{Find, Member};
use super::raw_locn::RawLocn;

/// A metadata area: the index of its member, and that of the area in it.
pub(super) type AreaIndex = (usize, usize);

/// The physical volumes of a group, open for writing.
pub(super) struct MemberWriter {
    pub(super) members: Vec<Member>,
    /// The devices, in the order of the members.
    devices: Vec<Arc<dyn BlockWrite>>,
}

/// Returns a function that finds devices for reading by one that finds them for writing.
pub(super) fn reading(
    find: Find<'_, dyn BlockWrite>,
) -> impl Fn(&super::PvEntry) -> Result<Option<Arc<dyn BlockRead>>> {
    move |entry| {
        let found = find(entry)?;
        Ok(found.map(|device| -> Arc<dyn BlockRead> { device }))
    }
}

impl MemberWriter {
    /// Opens the devices of all members.
    ///
    /// # Errors
    /// `NotFound` for a missing one; errors of `find`.
    pub(super) fn open(
        group: &VolumeGroup,
        members: Vec<Member>,
        find: Find<'_, dyn BlockWrite>,
    ) -> Result<Self> {
        let devices = members.iter().map(|member| {
            let entry = group.physical_volumes.get(member.index);
            let found = entry.map(find).transpose()?.flatten();
            found.ok_or_else(|| Error::new(ErrorKind::NotFound, "missing physical volume"))
        });
        let devices = devices.collect::<Result<_>>()?;
        Ok(Self { members, devices })
    }

    /// Returns all areas, member by member.
    pub(super) fn areas(&self) -> Vec<AreaIndex> {
        let members = self.members.iter().enumerate();
        let areas = members.flat_map(|(index, member)| {
            let areas = 0..member.areas.len();
            areas.map(move |area| (index, area))
        });
        areas.collect()
    }

    /// Returns an area with its device.
    pub(super) fn at(&self, (index, area): AreaIndex) -> Result<(MdaHeader, Arc<dyn BlockWrite>)> {
        let member = self.members.get(index);
        let area = member.and_then(|member| member.areas.get(area)).copied();
        area.zip(self.devices.get(index).cloned())
            .ok_or_else(|| Error::invalid("missing metadata area"))
    }

    /// Writes a text beside the one that an area has, to which nothing refers yet.
    pub(super) fn write_text(&self, at: AreaIndex, text: &str) -> Result<RawLocn> {
        let (area, device) = self.at(at)?;
        let written = area.write_text(&*device, text.as_bytes())?;
        device.flush()?;
        Ok(written)
    }

    /// Writes an area at a new place, to which the label does not refer yet. The member then has
    /// that area in place of the old one.
    pub(super) fn create_area(&mut self, at: AreaIndex, start: u64, text: &str) -> Result<()> {
        let (old, device) = self.at(at)?;
        let area = MdaHeader::with_first_text(start, old.size_bytes, text.as_bytes());
        area.write_whole(&*device, text.as_bytes())?;
        device.flush()?;
        let member = self.members.get_mut(at.0);
        if let Some(old) = member.and_then(|member| member.areas.get_mut(at.1)) {
            *old = area;
        }
        Ok(())
    }

    /// Writes the header of an area, which refers to another text from then on.
    pub(super) fn write_header(&mut self, at: AreaIndex, text: RawLocn) -> Result<()> {
        self.put_header(at, text)?;
        self.set_text(at, text);
        Ok(())
    }

    /// Writes the header of an area, and keeps the area's present text in mind.
    pub(super) fn put_header(&self, at: AreaIndex, text: RawLocn) -> Result<()> {
        let (area, device) = self.at(at)?;
        let header = area.header_with(&*device, text)?;
        device.write_at(area.start, &header)?;
        device.flush()
    }

    /// Records that an area has another text.
    pub(super) fn set_text(&mut self, (index, area): AreaIndex, text: RawLocn) {
        let member = self.members.get_mut(index);
        if let Some(area) = member.and_then(|member| member.areas.get_mut(area)) {
            area.text = text;
        }
    }

    /// Writes the sector of a member's label.
    pub(super) fn write_label(&self, index: usize, sector: &[u8]) -> Result<()> {
        let pair = self.members.get(index).zip(self.devices.get(index));
        let (member, device) = pair.ok_or_else(|| Error::invalid("missing device"))?;
        device.write_at(member.label.start_bytes, sector)?;
        device.flush()
    }
}
