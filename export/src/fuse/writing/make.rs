//! Creation of files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use diskfs_vfs::{InodeNumber, NewAttributes, NewKind};
use fuser::{FileAttr, Generation, INodeNo};

use super::super::id_map::IdMapping;
use super::{Answer, Maker, NO_ID, WritingAdapter};

impl WritingAdapter {
    /// Creates a file and adds the kernel's reference to it.
    pub(super) fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        kind: NewKind<'_>,
        maker: Maker,
    ) -> Answer<(FileAttr, Generation)> {
        let dir = self.inode(parent);
        let attributes = self.attributes_of_new(dir, maker)?;
        let make = || self.fs.create(dir, name.as_bytes(), kind, &attributes);
        let inode = self.change_names(dir, make)?;
        Ok(self.referenced_entry(inode)?)
    }

    /// Creates a file without a name and adds the kernel's reference to it.
    pub(super) fn make_unnamed(
        &self,
        parent: INodeNo,
        maker: Maker,
    ) -> Answer<(FileAttr, Generation)> {
        let dir = self.inode(parent);
        let attributes = self.attributes_of_new(dir, maker)?;
        let inode = self.fs.create_unnamed(dir, &attributes)?;
        let known = self.referenced_entry(inode);
        // From now on the kernel's reference keeps the file; without one it is removed.
        self.fs.release(inode)?;
        Ok(known?)
    }

    fn attributes_of_new(&self, dir: InodeNumber, maker: Maker) -> Answer<NewAttributes> {
        let ids = &self.reading.ids;
        let (mut dir_uid, mut dir_gid) = (0, 0);
        // The directory's owner is needed only if ids are mapped to one.
        if matches!(ids.uid, IdMapping::Fixed(_)) || matches!(ids.gid, IdMapping::Fixed(_)) {
            let metadata = self.fs.metadata(dir)?;
            (dir_uid, dir_gid) = (metadata.uid, metadata.gid);
        }
        Ok(NewAttributes {
            permissions: low_bits(maker.mode),
            umask: low_bits(maker.umask),
            uid: ids.uid.maker(maker.uid, dir_uid).ok_or(NO_ID)?,
            gid: ids.gid.maker(maker.gid, dir_gid).ok_or(NO_ID)?,
        })
    }
}

/// Returns the permission bits of a mode, without the file type.
pub(super) fn low_bits(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or_default()
}
