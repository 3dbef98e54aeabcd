//! Removal of names: unlink and rmdir.

use diskfs_vfs::FileType;

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::handle::Handle;
use crate::inode::Inode;
use crate::writer::{Core, Orphans};

use super::evict::RemainingWork;
use super::{
    CREDITS_BASE, changeable_dir, check_removable, discount_subdirectory, entry, evict, touch,
};

/// The kind of file to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovedKind {
    File,
    Directory,
}

impl Core {
    /// Removes a name of a file that is not a directory.
    pub(crate) fn unlink(&self, dir: u32, name: &[u8]) -> Result<()> {
        if name == b"." || name == b".." {
            return Err(Error::new(ErrorKind::IsADirectory, "is a directory")).in_inode(dir);
        }
        self.remove(dir, name, RemovedKind::File)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, dir: u32, name: &[u8]) -> Result<()> {
        match name {
            b"." => Err(Error::new(ErrorKind::Invalid, "cannot remove `.`")).in_inode(dir),
            b".." => Err(Error::new(ErrorKind::NotEmpty, "cannot remove `..`")).in_inode(dir),
            _ => self.remove(dir, name, RemovedKind::Directory),
        }
    }

    fn remove(&self, dir: u32, name: &[u8], what: RemovedKind) -> Result<()> {
        loop {
            let number = self.find_existing(dir, name)?;
            let credits = CREDITS_BASE.saturating_add(evict::CREDITS_SMALL);
            let done = self.update(&[dir, number], credits, |handle| {
                remove(handle, &self.orphans, dir, name, number, what)
            })?;
            match done {
                None => {}
                Some(RemainingWork::Nothing) => return Ok(()),
                Some(RemainingWork::Eviction) => return self.evict(number),
            }
        }
    }
}

/// Removes a name. Returns `None` if the name refers to another inode by now.
fn remove(
    handle: &Handle<'_>,
    orphans: &Orphans,
    dir: u32,
    name: &[u8],
    number: u32,
    what: RemovedKind,
) -> Result<Option<RemainingWork>> {
    let mut dir = changeable_dir(handle, dir)?;
    if entry(handle, &dir, name)? != Some(number) {
        return Ok(None);
    }
    let mut inode = handle.inode(number)?;
    check_removable(&dir, &inode)?;
    check_kind(handle, &inode, what)?;
    directory::remove(handle, &mut dir, name)?;
    if what == RemovedKind::Directory {
        discount_subdirectory(&mut dir);
    }
    touch(handle, &mut dir);
    handle.store(&dir)?;
    evict::drop_link(handle, orphans, &mut inode).map(Some)
}

fn check_kind(handle: &Handle<'_>, inode: &Inode, what: RemovedKind) -> Result<()> {
    let is_dir = inode.is(FileType::Directory);
    let error = match what {
        RemovedKind::File if is_dir => Error::new(ErrorKind::IsADirectory, "is a directory"),
        RemovedKind::Directory if !is_dir => {
            Error::new(ErrorKind::NotADirectory, "not a directory")
        }
        RemovedKind::Directory if !directory::is_empty(handle.volume(), inode)? => {
            Error::new(ErrorKind::NotEmpty, "the directory is not empty")
        }
        _ => return Ok(()),
    };
    Err(error).in_inode(inode.number)
}
