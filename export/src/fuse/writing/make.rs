//! New files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use diskfs_vfs::{InodeNumber, NewAttributes, NewKind};
use fuser::{FileAttr, Generation, INodeNo};

use super::super::id_map::IdMapping;
use super::{Answer, Maker, NO_ID, WritingAdapter};

impl WritingAdapter {
    /// Makes a file, which the kernel knows from then on.
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
        let inode = self.change(dir, make)?;
        Ok(self.known(inode)?)
    }

    /// Makes a file without a name, which the kernel knows from then on.
    pub(super) fn make_unnamed(
        &self,
        parent: INodeNo,
        maker: Maker,
    ) -> Answer<(FileAttr, Generation)> {
        let dir = self.inode(parent);
        let attributes = self.attributes_of_new(dir, maker)?;
        let inode = self.fs.create_unnamed(dir, &attributes)?;
        let known = self.known(inode);
        // The kernel holds it from now on, or it goes.
        self.fs.release(inode)?;
        Ok(known?)
    }

    fn attributes_of_new(&self, dir: InodeNumber, maker: Maker) -> Answer<NewAttributes> {
        let ids = &self.reading.ids;
        let (mut dir_uid, mut dir_gid) = (0, 0);
        // Only then whose the directory is means anything.
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

/// The bits of a mode besides the type.
pub(super) fn low_bits(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or_default()
}
