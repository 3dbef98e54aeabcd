//! Names taken away.

use diskfs_vfs::FileType;

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::handle::Handle;
use crate::inode::Inode;
use crate::writer::{Core, Orphans};

use super::evict::Left;
use super::{
    CREDITS_BASE, changeable_dir, check_removable, discount_subdirectory, entry, evict, touch,
};

/// What is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    File,
    Directory,
}

impl Core {
    /// Takes a name of a file that is no directory.
    pub(crate) fn unlink(&self, dir: u32, name: &[u8]) -> Result<()> {
        if name == b"." || name == b".." {
            return Err(Error::new(ErrorKind::IsADirectory, "is a directory")).in_inode(dir);
        }
        self.remove(dir, name, What::File)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, dir: u32, name: &[u8]) -> Result<()> {
        match name {
            b"." => Err(Error::new(ErrorKind::Invalid, "is the directory itself")).in_inode(dir),
            b".." => Err(Error::new(ErrorKind::NotEmpty, "is the directory above")).in_inode(dir),
            _ => self.remove(dir, name, What::Directory),
        }
    }

    fn remove(&self, dir: u32, name: &[u8], what: What) -> Result<()> {
        loop {
            let number = self.find_existing(dir, name)?;
            let credits = CREDITS_BASE.saturating_add(evict::CREDITS_SMALL);
            let done = self.update(&[dir, number], credits, |handle| {
                remove(handle, &self.orphans, dir, name, number, what)
            })?;
            match done {
                None => {}
                Some(Left::Nothing) => return Ok(()),
                Some(Left::Eviction) => return self.evict(number),
            }
        }
    }
}

/// `None` when the name names something else by now.
fn remove(
    handle: &Handle<'_>,
    orphans: &Orphans,
    dir: u32,
    name: &[u8],
    number: u32,
    what: What,
) -> Result<Option<Left>> {
    let mut dir = changeable_dir(handle, dir)?;
    if entry(handle, &dir, name)? != Some(number) {
        return Ok(None);
    }
    let mut inode = handle.inode(number)?;
    check_removable(&dir, &inode)?;
    check_what(handle, &inode, what)?;
    directory::remove(handle, &mut dir, name)?;
    if what == What::Directory {
        discount_subdirectory(&mut dir);
    }
    touch(&mut dir);
    handle.store(&dir)?;
    evict::drop_link(handle, orphans, &mut inode).map(Some)
}

fn check_what(handle: &Handle<'_>, inode: &Inode, what: What) -> Result<()> {
    let is_dir = inode.is(FileType::Directory);
    let error = match what {
        What::File if is_dir => Error::new(ErrorKind::IsADirectory, "is a directory"),
        What::Directory if !is_dir => Error::new(ErrorKind::NotADirectory, "not a directory"),
        What::Directory if !directory::is_empty(handle.volume(), inode)? => {
            Error::new(ErrorKind::NotEmpty, "the directory is not empty")
        }
        _ => return Ok(()),
    };
    Err(error).in_inode(inode.number)
}
