//! Changes of attributes.

use std::time::SystemTime;

use diskfs_vfs::{InodeNumber, SetMetadata, SetTime};
use fuser::TimeOrNow;

use super::super::attributes::timestamp;
use super::make::low_bits;
use super::privileges::{self, Asker};
use super::{Answer, NO_ID, WritingAdapter};

/// What is to change; `None` stays.
#[derive(Debug, Default)]
pub(super) struct Wish {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
    pub(super) changed: Option<SystemTime>,
}

impl WritingAdapter {
    /// Does what SETATTR asks for on behalf of `asker`.
    pub(super) fn set_attributes(
        &self,
        inode: InodeNumber,
        wish: &Wish,
        asker: Asker,
    ) -> Answer<()> {
        if let Some(size) = wish.size {
            self.set_len(inode, size, asker)?;
        }
        let mut change = SetMetadata {
            permissions: wish.mode.map(low_bits),
            accessed: wish.accessed.map(set_time),
            modified: wish.modified.map(set_time),
            changed: wish.changed.map(|time| SetTime::At(timestamp(time))),
            ..SetMetadata::default()
        };
        if wish.uid.is_some() || wish.gid.is_some() {
            self.set_owner(inode, wish, &mut change, asker)?;
        }
        if change != SetMetadata::default() {
            self.fs.set_metadata(inode, &change)?;
        }
        Ok(())
    }

    /// A file that is given away loses its owner's rights, whoever gives it.
    fn set_owner(
        &self,
        inode: InodeNumber,
        wish: &Wish,
        change: &mut SetMetadata,
        asker: Asker,
    ) -> Answer<()> {
        let ids = &self.reading.ids;
        let metadata = self.fs.metadata(inode)?;
        if let Some(uid) = wish.uid {
            change.uid = Some(ids.uid.owner(uid, metadata.uid).ok_or(NO_ID)?);
        }
        if let Some(gid) = wish.gid {
            change.gid = Some(ids.gid.owner(gid, metadata.gid).ok_or(NO_ID)?);
        }
        let permissions = privileges::without_ids(&metadata, || {
            asker.is_root() || self.is_of_group(asker, &metadata)
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
