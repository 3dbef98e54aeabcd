//! Creating hard links.

use diskfs_vfs::FileType;

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::handle::Handle;
use crate::inode::InodeFlags;
use crate::writer::{Core, Orphans};

use super::{
    CREDITS_BASE, CREDITS_INSERT, LINKS_MAX, changeable_dir, check_name, entry, live,
    not_append_only, not_immutable, touch,
};

impl Core {
    /// Creates a hard link to `number`.
    pub(crate) fn link(&self, number: u32, dir: u32, name: &[u8]) -> Result<()> {
        check_name(dir, name)?;
        let credits = CREDITS_BASE.saturating_add(CREDITS_INSERT);
        self.update(&[dir, number], credits, |handle| {
            link(handle, &self.orphans, number, dir, name)
        })
    }
}

fn link(handle: &Handle<'_>, orphans: &Orphans, number: u32, dir: u32, name: &[u8]) -> Result<()> {
    let mut dir = changeable_dir(handle, dir)?;
    let mut inode = live(handle, number)?;
    // Errors are checked in the kernel's order.
    if entry(handle, &dir, name)?.is_some() {
        return Err(Error::new(ErrorKind::Exists, "the name is taken")).in_inode(dir.number);
    }
    if inode.is(FileType::Directory) {
        let reason = "cannot create a hard link to a directory";
        return Err(Error::new(ErrorKind::NotPermitted, reason)).in_inode(number);
    }
    not_immutable(&inode)?;
    not_append_only(&inode)?;
    if inode.links == 0 && !orphans.is_unnamed(number) {
        return Err(Error::new(ErrorKind::NotFound, "the file was removed")).in_inode(number);
    }
    if inode.links >= LINKS_MAX {
        let reason = "too many hard links: at most 65000";
        return Err(Error::new(ErrorKind::TooManyNames, reason)).in_inode(number);
    }
    if dir.has(InodeFlags::PROJECT_INHERIT) && dir.project != inode.project {
        let reason = "the file and the directory belong to different projects";
        return Err(Error::new(ErrorKind::CrossesDevices, reason)).in_inode(number);
    }
    let file_type = inode.file_type.unwrap_or(FileType::Regular);
    let inserted = directory::insert(handle, &mut dir, name, number, file_type);
    if inserted.is_ok() {
        touch(handle, &mut dir);
    }
    handle.store(&dir)?;
    inserted?;
    if inode.links == 0 {
        orphans.remove(handle, number)?;
    }
    inode.links = inode.links.saturating_add(1);
    inode.changed = handle.now();
    handle.store(&inode)
}
