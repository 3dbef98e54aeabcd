//! The editor's changes of physical volumes.

use diskfs_block::{Error, ErrorKind, Result};

use super::super::members::Member;
use super::super::{LvmId, PvEntry};
use super::commit::NewLabel;
use super::{GroupEditor, named, physical};

impl GroupEditor {
    /// Returns the smallest size of the device to which a physical volume can be reduced, in bytes.
    ///
    /// # Errors
    /// `NotFound` for an unknown physical volume.
    pub fn least_device_bytes(&self, id: &LvmId) -> Result<u64> {
        let (entry, _) = self.physical_volume(id)?;
        let end = physical::last_use(&self.draft.group, entry).map_or(0, |(end, _)| end);
        let bytes = end.max(1).saturating_mul(self.draft.group.extent_bytes);
        Ok(entry.start_bytes.saturating_add(bytes))
    }

    /// Grows a physical volume to the size of its device, as pvresize does. Returns the number of
    /// bytes that were added to the group. Nothing to grow is a success.
    ///
    /// # Errors
    /// `NotFound` for an unknown physical volume; `Unsupported` for metadata areas after the
    /// extents that cannot be moved, and for a second physical volume with such an area in one
    /// change.
    pub fn grow_physical_volume(&mut self, id: &LvmId) -> Result<u64> {
        self.grow(id).map_err(|error| named(&self.original, &error))
    }

    fn grow(&mut self, id: &LvmId) -> Result<u64> {
        let (entry, member) = self.physical_volume(id)?;
        let (index, old) = (member.index, entry.extents);
        let Some(size) = physical::growth(&self.draft.group, entry, member)? else {
            // A crash may have left the old size in the label.
            let needed = entry
                .start_bytes
                .saturating_add(entry.extents.saturating_mul(self.draft.group.extent_bytes));
            if member.header_bytes < needed && !self.has_label(index) {
                let device_bytes = entry.device_bytes.unwrap_or(needed).max(needed);
                self.set_label(index, device_bytes, None);
            }
            return Ok(0);
        };
        if size.moved.is_some() && self.labels.iter().any(|label| label.moved.is_some()) {
            let reason = "two physical volumes have a metadata area after their extents";
            return Err(Error::unsupported(reason).with_hint("grow and write them one by one"));
        }
        let draft = physical::resized(&self.draft, &entry.key, &size)?;
        self.set_label(index, size.device_bytes, size.moved);
        self.set_draft(draft);
        let more = size.extents.saturating_sub(old);
        Ok(more.saturating_mul(self.draft.group.extent_bytes))
    }

    /// Grows all physical volumes to the sizes of their devices. Returns the number of bytes that
    /// were added to the group.
    ///
    /// # Errors
    /// As [`grow_physical_volume`](Self::grow_physical_volume).
    pub fn grow_physical_volumes(&mut self) -> Result<u64> {
        let mut grown = self.clone();
        let mut added = 0_u64;
        let entries = &self.original.physical_volumes;
        for id in entries.iter().map(|entry| entry.id) {
            added = added.saturating_add(grown.grow_physical_volume(&id)?);
        }
        *self = grown;
        Ok(added)
    }

    /// Reduces a physical volume to a size of its device, as `pvresize --setphysicalvolumesize`
    /// does, so that the device can then be reduced to it. Returns the number of bytes that the
    /// group lost. A physical volume that is not larger is a success.
    ///
    /// # Errors
    /// `NotFound` for an unknown physical volume; `NoSpace` if a logical volume uses extents after
    /// that size, with their place; `Invalid` if no extent would be left; `Unsupported` for a
    /// metadata area after the extents.
    pub fn shrink_physical_volume(&mut self, id: &LvmId, device_bytes: u64) -> Result<u64> {
        self.shrink(id, device_bytes)
            .map_err(|error| named(&self.original, &error))
    }

    fn shrink(&mut self, id: &LvmId, device_bytes: u64) -> Result<u64> {
        let (entry, member) = self.physical_volume(id)?;
        let (index, old) = (member.index, entry.extents);
        let size = physical::reduction(&self.draft.group, entry, member, device_bytes)?;
        let Some(size) = size else {
            return Ok(0);
        };
        let is_in_text =
            entry.device_bytes == Some(size.device_bytes) && entry.extents == size.extents;
        if !is_in_text {
            let draft = physical::resized(&self.draft, &entry.key, &size)?;
            self.set_draft(draft);
        }
        self.set_label(index, size.device_bytes, None);
        let fewer = old.saturating_sub(size.extents);
        Ok(fewer.saturating_mul(self.draft.group.extent_bytes))
    }

    fn has_label(&self, index: usize) -> bool {
        self.labels.iter().any(|label| label.index == index)
    }

    /// Sets the new contents of a label.
    fn set_label(&mut self, index: usize, device_bytes: u64, moved: Option<physical::MovedArea>) {
        self.labels.retain(|label| label.index != index);
        self.labels.push(NewLabel {
            index,
            device_bytes,
            moved,
        });
    }

    fn physical_volume(&self, id: &LvmId) -> Result<(&PvEntry, &Member)> {
        let entries = self.draft.group.physical_volumes.iter();
        let found = entries.enumerate().find(|(_, entry)| entry.id == *id);
        let found = found.and_then(|(index, entry)| {
            let mut members = self.members.physical.iter();
            let member = members.find(|member| member.index == index)?;
            Some((entry, member))
        });
        found.ok_or_else(|| {
            let reason = format!("no such physical volume: {id}");
            Error::new(ErrorKind::NotFound, reason)
        })
    }
}
