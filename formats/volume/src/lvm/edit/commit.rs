//! Writing of an edited group.

use diskfs_block::{Error, Result};

use super::super::member_writer::{AreaIndex, MemberWriter};
use super::super::members::Members;
use super::super::pv_header;
use super::super::raw_locn::RawLocn;
use super::physical::MovedArea;

/// The new contents of a member's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewLabel {
    /// The index of the physical volume in the group.
    pub(super) index: usize,
    pub(super) device_bytes: u64,
    pub(super) moved: Option<MovedArea>,
}

/// Everything that is written.
pub(super) struct Commit {
    /// The text as it is stored, with its final NUL.
    pub(super) text: String,
    /// The location of the newest text on disk.
    pub(super) newest: RawLocn,
    /// True if the text differs from the newest one on disk.
    pub(super) is_changed: bool,
    pub(super) labels: Vec<NewLabel>,
    pub(super) devices: MemberWriter,
}

impl Commit {
    /// Returns true if [`write`](Self::write) would write anything.
    pub(super) fn is_needed(members: &Members, is_changed: bool, labels: &[NewLabel]) -> bool {
        let mut areas = members.physical.iter().flat_map(|member| &member.areas);
        is_changed || !labels.is_empty() || areas.any(|area| !members.newest.is_same(&area.text))
    }

    /// Writes, in this order: a metadata area at its new place, and the label that refers to it;
    /// the other areas, one after the other; the other labels.
    pub(super) fn write(mut self) -> Result<()> {
        let labels = std::mem::take(&mut self.labels);
        for label in labels.iter().filter(|label| label.moved.is_some()) {
            self.move_area(label)?;
        }
        for at in self.devices.areas() {
            let (area, _) = self.devices.at(at)?;
            if !self.is_written(area.text) {
                self.write_area(at)?;
            }
        }
        for label in labels.iter().filter(|label| label.moved.is_none()) {
            self.write_label(label)?;
        }
        Ok(())
    }

    /// Returns true if an area has the text already.
    fn is_written(&self, text: RawLocn) -> bool {
        !self.is_changed && self.newest.is_same(&text)
            || self.is_changed && text.is_same(&RawLocn::of(self.text.as_bytes(), text.offset))
    }

    fn write_area(&mut self, at: AreaIndex) -> Result<()> {
        let text = self.devices.write_text(at, &self.text)?;
        self.devices.write_header(at, text)
    }

    /// Writes the text to the new place of an area, to which nothing refers yet, and then the
    /// label.
    fn move_area(&mut self, label: &NewLabel) -> Result<()> {
        let Some((from, to)) = label.moved else {
            return Ok(());
        };
        let mut areas = self.devices.areas().into_iter();
        let at = areas.find(|at| {
            let member = self.devices.members.get(at.0);
            let is_member = member.is_some_and(|member| member.index == label.index);
            is_member
                && self
                    .devices
                    .at(*at)
                    .is_ok_and(|(area, _)| area.start == from)
        });
        let at = at.ok_or_else(|| Error::invalid("missing metadata area"))?;
        self.devices.create_area(at, to, &self.text)?;
        self.write_label(label)
    }

    fn write_label(&self, label: &NewLabel) -> Result<()> {
        let mut members = self.devices.members.iter();
        let place = members.position(|member| member.index == label.index);
        let place = place.ok_or_else(|| Error::invalid("missing physical volume"))?;
        let Some(member) = self.devices.members.get(place) else {
            return Ok(());
        };
        let sector = member.label.with_header(|header| {
            pv_header::resize(header, label.device_bytes, label.moved);
        });
        self.devices.write_label(place, &sector)
    }
}
