//! Changes of file attributes (SETATTR).

use std::time::SystemTime;

use diskfs_vfs::{InodeNumber, SetMetadata, SetTime};
use fuser::TimeOrNow;

use super::super::attributes::timestamp;
use super::make::low_bits;
use super::privileges::{self, Requester};
use super::{Answer, NO_ID, WritingAdapter};

/// The requested changes; `None` leaves an attribute unchanged.
#[derive(Debug, Default)]
pub(super) struct AttributeChanges {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
    pub(super) changed: Option<SystemTime>,
}

impl WritingAdapter {
    /// Applies the changes of a SETATTR request on behalf of `requester`.
    pub(super) fn set_attributes(
        &self,
        inode: InodeNumber,
        changes: &AttributeChanges,
        requester: Requester,
    ) -> Answer<()> {
        if let Some(size) = changes.size {
            self.set_len(inode, size, requester)?;
        }
        let mut change = SetMetadata {
            permissions: changes.mode.map(low_bits),
            accessed: changes.accessed.map(set_time),
            modified: changes.modified.map(set_time),
            changed: changes.changed.map(|time| SetTime::At(timestamp(time))),
            ..SetMetadata::default()
        };
        if changes.uid.is_some() || changes.gid.is_some() {
            self.set_owner(inode, changes, &mut change, requester)?;
        }
        if change != SetMetadata::default() {
            self.fs.set_metadata(inode, &change)?;
        }
        Ok(())
    }

    /// Changes the owner. The file loses its privileges, even if root changes the owner.
    fn set_owner(
        &self,
        inode: InodeNumber,
        changes: &AttributeChanges,
        change: &mut SetMetadata,
        requester: Requester,
    ) -> Answer<()> {
        let ids = &self.reading.ids;
        let metadata = self.fs.metadata(inode)?;
        if let Some(uid) = changes.uid {
            change.uid = Some(ids.uid.owner(uid, metadata.uid).ok_or(NO_ID)?);
        }
        if let Some(gid) = changes.gid {
            change.gid = Some(ids.gid.owner(gid, metadata.gid).ok_or(NO_ID)?);
        }
        let permissions = privileges::without_ids(&metadata, || {
            requester.is_root() || self.is_of_group(requester, &metadata)
        });
        if change.permissions.is_none() && permissions != metadata.permissions {
            change.permissions = Some(permissions);
        }
        privileges::drop_capabilities(&*self.fs, inode)?;
        Ok(())
    }
}

fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(timestamp(time)),
    }
}
