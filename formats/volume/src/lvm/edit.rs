//! Editing of volume groups: sizes of physical and logical volumes, and new ones.
//!
//! [`GroupEditor`] reads the metadata of a group from all of its physical volumes. Its methods
//! change the metadata in memory, and refuse a change that would damage a logical volume.
//! [`GroupEditor::write`] writes the result in an order that a crash survives. [`NewGroup`] creates
//! a group on empty devices.
//!
//! ```
//! use std::sync::Arc;
//! use diskfs_block::{BlockRead, BlockWrite, Memory};
//! use diskfs_volume::edit::NewSize;
//! use diskfs_volume::lvm::{LvmId, MetadataOrigin, NewGroup, NewVolume};
//!
//! let disk: Arc<dyn BlockWrite> = Arc::new(Memory::new(vec![0; 32 << 20]));
//! let group = NewGroup {
//!     name: "vg0".to_owned(),
//!     id: LvmId::from_random([1; 32]),
//!     physical_volumes: vec![LvmId::from_random([2; 32])],
//!     extent_bytes: NewGroup::DEFAULT_EXTENT_BYTES,
//!     volumes: vec![NewVolume {
//!         name: "root".to_owned(),
//!         id: LvmId::from_random([3; 32]),
//!         size: NewSize::Bytes(8 << 20),
//!     }],
//!     origin: MetadataOrigin {
//!         host: "builder".to_owned(),
//!         time_seconds: 0,
//!         description: String::new(),
//!     },
//! }
//! .create(&[Arc::clone(&disk)])?;
//!
//! let mut editor = group.editor(&|_| Ok(Some(Arc::clone(&disk) as Arc<dyn BlockRead>)))?;
//! assert_eq!(editor.free_bytes(), 20 << 20);
//! assert_eq!(editor.extend("root", NewSize::Largest)?, 28 << 20);
//! assert!(editor.write(&|_| Ok(Some(Arc::clone(&disk))))?);
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # What is written
//!
//! Only metadata areas and labels. Extents are never moved and their contents never changed, so a
//! new or longer volume contains what the extents contained before.
//!
//! # Crashes
//!
//! Each metadata area gets the new text beside the present one, and then a header that refers to
//! it, with a flush after each. The areas follow one after the other. A reader takes the text with
//! the highest `seqno`. So a crash leaves the old or the new metadata, and areas or labels that are
//! out of date; the same change, or any other, completes them.

mod allocation;
mod commit;
mod draft;
mod free_extents;
mod logical;
mod new_group;
mod new_volume;
mod obstacle;
mod origin;
mod physical;
mod physical_editor;
mod segments;

use diskfs_block::{BlockRead, BlockWrite, Error, Result};

use super::VolumeGroup;
use super::member_writer::MemberWriter;
use super::members::{Find, Members, with_reason};
use crate::edit::NewSize;
use commit::{Commit, NewLabel};
use draft::Draft;

pub use new_group::NewGroup;
pub use new_volume::NewVolume;
pub use origin::MetadataOrigin;

/// The metadata of a volume group in memory that is being edited.
///
/// A method that fails changes nothing. Nothing is written before [`write`](Self::write).
#[derive(Debug, Clone)]
pub struct GroupEditor {
    /// The group on disk.
    original: VolumeGroup,
    members: Members,
    draft: Draft,
    is_changed: bool,
    labels: Vec<NewLabel>,
    origin: Option<MetadataOrigin>,
}

impl VolumeGroup {
    /// Returns an editor of the group's metadata. `find` returns the device of a physical volume.
    ///
    /// # Errors
    /// * `Unsupported` for a group that is exported, shared, clustered, read-only or
    ///   has unknown flags, and for logical volumes that use extents in an unknown way.
    /// * `NotFound` for a missing physical volume.
    /// * `Corrupt` for metadata that LVM has to repair.
    /// * Errors of `find`.
    pub fn editor(&self, find: Find<'_, dyn BlockRead>) -> Result<GroupEditor> {
        GroupEditor::read(self, find).map_err(|error| named(self, &error))
    }
}

impl GroupEditor {
    fn read(group: &VolumeGroup, find: Find<'_, dyn BlockRead>) -> Result<Self> {
        let members = Members::read(group, find)?;
        let draft = Draft::new(members.text.clone())?;
        let editor = Self {
            original: group.clone(),
            members,
            draft,
            is_changed: false,
            labels: Vec::new(),
            origin: None,
        };
        editor.check_devices()?;
        Ok(editor)
    }

    /// Checks that each device has all extents of its physical volume.
    fn check_devices(&self) -> Result<()> {
        for member in &self.members.physical {
            let Some(entry) = self.original.physical_volumes.get(member.index) else {
                continue;
            };
            let size = entry.extents.checked_mul(self.original.extent_bytes);
            let end = size.and_then(|size| entry.start_bytes.checked_add(size));
            if end.is_none_or(|end| end > member.device_bytes) {
                let reason = format!(
                    "physical volume {} has {} extents, but its device has only {} bytes",
                    entry.id, entry.extents, member.device_bytes
                );
                return Err(Error::corrupt(reason)
                    .with_hint("the image was truncated, or a partition is too small"));
            }
        }
        Ok(())
    }

    /// Returns the group with the changes so far. Its `seqno` is the one on disk.
    pub fn group(&self) -> &VolumeGroup {
        &self.draft.group
    }

    /// Returns true if the metadata differs from that on disk.
    pub fn is_changed(&self) -> bool {
        self.is_changed || !self.labels.is_empty()
    }

    /// Returns the number of bytes that can be allocated, with the changes so far.
    pub fn free_bytes(&self) -> u64 {
        let extents = self.draft.free().count();
        extents.saturating_mul(self.draft.group.extent_bytes)
    }

    /// Sets the record of who writes the metadata. Without it, the old record is kept.
    ///
    /// # Errors
    /// `Invalid` for strings with quotes, backslashes or control characters.
    pub fn set_origin(&mut self, origin: MetadataOrigin) -> Result<()> {
        origin.check()?;
        self.origin = Some(origin);
        Ok(())
    }

    /// Extends a logical volume, as lvextend does. Returns its new size in bytes, which is rounded
    /// up to whole extents and stripes. A volume that has the size already is a success.
    ///
    /// Linear and striped volumes get free extents after their last ones, otherwise on the same
    /// physical volume, otherwise on others. A thin volume gets a larger virtual size.
    ///
    /// # Errors
    /// `NotFound` for an unknown volume; `NoSpace` if not enough extents are free; `Unsupported` for
    /// other types of volumes, and for those with snapshots or that are parts of others; `Invalid`.
    pub fn extend(&mut self, volume: &str, size: NewSize) -> Result<u64> {
        let extended = logical::extend(&self.draft, volume, size);
        self.take(extended)
    }

    /// Reduces a linear or striped logical volume, as lvreduce does. Returns its new size in bytes,
    /// which is rounded up to whole extents and stripes. A volume that is not larger is a success.
    ///
    /// What the volume contains after the new size is lost: a filesystem must be reduced first.
    ///
    /// # Errors
    /// As [`extend`](Self::extend); `Invalid` for a size of zero.
    pub fn reduce(&mut self, volume: &str, size_bytes: u64) -> Result<u64> {
        let reduced = logical::reduce(&self.draft, volume, size_bytes);
        self.take(reduced)
    }

    /// Adds a linear logical volume, as lvcreate does. Returns its size in bytes. Its contents are
    /// those that the extents had before.
    ///
    /// # Errors
    /// `Invalid` for an invalid name; `Exists` if the group has the name or the UUID; `NoSpace`.
    pub fn add(&mut self, volume: &NewVolume) -> Result<u64> {
        let added = new_volume::add(&self.draft, volume, self.origin.as_ref());
        self.take(added.map(|(draft, size_bytes)| (Some(draft), size_bytes)))
    }

    /// Takes the result of a change.
    fn take(&mut self, changed: Result<(Option<Draft>, u64)>) -> Result<u64> {
        let (draft, size_bytes) = changed.map_err(|error| named(&self.original, &error))?;
        if let Some(draft) = draft {
            self.set_draft(draft);
        }
        Ok(size_bytes)
    }

    fn set_draft(&mut self, draft: Draft) {
        self.draft = draft;
        self.is_changed = true;
    }

    /// Checks that [`write`](Self::write) can write the changes, without writing.
    ///
    /// # Errors
    /// `Unsupported` if a metadata area has no space for another text.
    pub fn check(&self) -> Result<()> {
        let checked = self.stored_text();
        checked
            .map(drop)
            .map_err(|error| named(&self.original, &error))
    }

    /// Returns the text to write, with its final NUL.
    fn stored_text(&self) -> Result<String> {
        let mut text = self.members.text.clone();
        if self.is_changed {
            let seqno = draft::number(self.original.seqno_after(1)?)?;
            let origin = self.origin.as_ref();
            let changed = Draft::changed(&self.draft.text, |tree| {
                draft::group_of(tree)?.set("seqno", seqno);
                origin.map_or(Ok(()), |origin| origin.set_in(tree))
            })?;
            text = changed.text;
        }
        // A text that is written again must stay the same.
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if self.is_changed || self.members.newest.size_bytes > length {
            text.push('\0');
        }
        self.members.check_room(&text)?;
        Ok(text)
    }

    /// Writes the metadata to all metadata areas that are in use, with the next `seqno`. When it
    /// returns, the changes are durable. Returns false if nothing had to be written. `find` returns
    /// the device of a physical volume.
    ///
    /// Areas and labels that a crash left out of date are written, too.
    ///
    /// # Errors
    /// Before the first write: as [`check`](Self::check); `NotFound` for a missing device; errors
    /// of `find`. Then errors of the devices.
    pub fn write(self, find: Find<'_, dyn BlockWrite>) -> Result<bool> {
        let group = self.original.clone();
        self.commit(find).map_err(|error| named(&group, &error))
    }

    fn commit(self, find: Find<'_, dyn BlockWrite>) -> Result<bool> {
        if !Commit::is_needed(&self.members, self.is_changed, &self.labels) {
            return Ok(false);
        }
        let text = self.stored_text()?;
        let Members {
            newest, physical, ..
        } = self.members;
        let commit = Commit {
            text,
            newest,
            is_changed: self.is_changed,
            labels: self.labels,
            devices: MemberWriter::open(&self.original, physical, find)?,
        };
        commit.write()?;
        Ok(true)
    }
}

/// Adds the name of the group to an error.
fn named(group: &VolumeGroup, error: &Error) -> Error {
    let reason = format!(
        "cannot change volume group {}: {}",
        group.name,
        error.reason()
    );
    with_reason(error, reason)
}
