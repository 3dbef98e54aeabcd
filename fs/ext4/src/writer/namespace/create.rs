//! Creation of files, with a name or without one.

use diskfs_vfs::{NewAttributes, NewKind};

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::handle::Handle;
use crate::writer::Core;

use super::{
    CREDITS_BASE, CREDITS_INSERT, changeable_dir, check_name, count_subdirectory, entry, evict,
    new_inode, touch,
};

impl Core {
    /// Creates a file named `name` in `dir`.
    pub(crate) fn create(
        &self,
        dir: u32,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<u32> {
        check_name(dir, name)?;
        new_inode::check_kind(kind)?;
        self.update(
            &[dir],
            CREDITS_BASE.saturating_add(CREDITS_INSERT),
            |handle| create(handle, dir, name, kind, attributes),
        )
    }

    /// Creates a regular file without a name, with one hold.
    pub(crate) fn create_unnamed(&self, dir: u32, attributes: &NewAttributes) -> Result<u32> {
        self.update(&[dir], CREDITS_BASE, |handle| {
            let dir = changeable_dir(handle, dir)?;
            let mut inode = new_inode::make(handle, &dir, NewKind::Regular, attributes)?;
            inode.links = 0;
            handle.store(&inode)?;
            self.orphans.add_unnamed(handle, inode.number)?;
            self.holds.add(inode.number);
            Ok(inode.number)
        })
    }
}

fn create(
    handle: &Handle<'_>,
    dir: u32,
    name: &[u8],
    kind: NewKind<'_>,
    attributes: &NewAttributes,
) -> Result<u32> {
    let mut dir = changeable_dir(handle, dir)?;
    if entry(handle, &dir, name)?.is_some() {
        return Err(Error::new(ErrorKind::Exists, "the name is taken")).in_inode(dir.number);
    }
    let before = dir.clone();
    if matches!(kind, NewKind::Directory) {
        count_subdirectory(&handle.volume().superblock, &mut dir)?;
    }
    let mut inode = new_inode::make(handle, &before, kind, attributes)?;
    let file_type = new_inode::file_type(kind);
    if let Err(e) = directory::insert(handle, &mut dir, name, inode.number, file_type) {
        evict::undo_new(handle, &mut inode)?;
        // Changes by an insertion that failed later (an added block) are kept.
        dir.links = before.links;
        handle.store(&dir)?;
        return Err(e);
    }
    touch(handle, &mut dir);
    handle.store(&dir)?;
    Ok(inode.number)
}
