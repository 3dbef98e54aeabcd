//! What is done to names: files made, linked, removed, renamed.
//!
//! Each operation looks names up with the directory's lock shared, then locks all inodes that it is
//! about, and looks again: what has changed meanwhile makes it begin anew.

mod create;
pub(crate) mod evict;
mod link;
mod new_inode;
mod remove;
mod rename;

use diskfs_vfs::FileType;

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result, Unsupported};
use crate::features::{Compatible, ReadOnlyCompatible};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::superblock::Superblock;

use super::{Core, now};

/// The longest name, `EXT4_NAME_LEN`.
const NAME_MAX_BYTES: usize = 255;
/// The most names that a file can have, `EXT4_LINK_MAX`.
const LINKS_MAX: u16 = 65_000;

/// How many blocks an operation on names may change besides the directories': inodes, bitmaps,
/// descriptors, superblock, orphans, attributes, the first block of a new file.
const CREDITS_BASE: u32 = 32;
/// How many blocks a new name in a directory may change: a leaf that is split, index blocks on three
/// levels that are split, and what allocating them changes.
const CREDITS_INSERT: u32 = 32;

/// Fails for what can be no name of a file.
fn check_name(dir: u32, name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX_BYTES {
        let e = Error::new(ErrorKind::NameTooLong, "a name has at most 255 bytes");
        return Err(e).in_inode(dir);
    }
    let bad = name.is_empty() || name.contains(&b'/') || name.contains(&0);
    if bad || name == b"." || name == b".." {
        let e = Error::new(ErrorKind::Invalid, "no file can have this name");
        return Err(e).in_inode(dir);
    }
    Ok(())
}

/// A directory in which names may be changed.
fn changeable_dir(handle: &Handle<'_>, number: u32) -> Result<Inode> {
    let dir = live(handle, number)?;
    if !dir.is(FileType::Directory) {
        return Err(Error::new(ErrorKind::NotADirectory, "not a directory")).in_inode(number);
    }
    if dir.links == 0 {
        return Err(Error::new(ErrorKind::NotFound, "the directory was removed")).in_inode(number);
    }
    if dir.has(InodeFlags::ENCRYPT) {
        return Err(Unsupported::EncryptedDirectory).in_inode(number);
    }
    not_immutable(&dir)?;
    Ok(dir)
}

/// An inode that is a file, and there: it has a name or is held.
pub(super) fn live(handle: &Handle<'_>, number: u32) -> Result<Inode> {
    let first = handle.volume().superblock.first_inode;
    let inode = if number == crate::inode::ROOT || number >= first {
        handle.inode(number)?
    } else {
        return Err(not_found(number));
    };
    let there = inode.links != 0 || handle.holds.contains(number);
    if there && !inode.has(InodeFlags::EA_INODE) {
        return Ok(inode);
    }
    Err(not_found(number))
}

fn not_found(number: u32) -> Error {
    let e: Result<()> = Err(Error::new(ErrorKind::NotFound, "no such inode")).in_inode(number);
    e.err().unwrap_or_else(|| ErrorKind::NotFound.into())
}

pub(super) fn not_immutable(inode: &Inode) -> Result<()> {
    refuse(
        inode,
        InodeFlags::IMMUTABLE,
        "the file is immutable (chattr -i makes it changeable)",
    )
}

pub(super) fn not_append_only(inode: &Inode) -> Result<()> {
    let reason = "the file can only be appended to (chattr -a makes it changeable)";
    refuse(inode, InodeFlags::APPEND, reason)
}

fn refuse(inode: &Inode, flag: InodeFlags, reason: &'static str) -> Result<()> {
    if inode.has(flag) {
        return Err(Error::new(ErrorKind::NotPermitted, reason)).in_inode(inode.number);
    }
    Ok(())
}

/// Whether a name of `inode` may be taken out of `dir`.
fn check_removable(dir: &Inode, inode: &Inode) -> Result<()> {
    not_append_only(dir)?;
    not_append_only(inode)?;
    not_immutable(inode)
}

/// What `name` names, by the directory's inode as it is in `handle`'s transaction.
fn entry(handle: &Handle<'_>, dir: &Inode, name: &[u8]) -> Result<Option<u32>> {
    directory::lookup(handle.volume(), dir, name)
}

impl Core {
    /// What `name` names now.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`; `Corrupt`, `Io`.
    fn find(&self, dir: u32, name: &[u8]) -> Result<Option<u32>> {
        let _shared = self.locks.shared(dir);
        let inode = self.volume().inode(dir)?;
        let inode = inode.ok_or_else(|| not_found(dir))?;
        if !inode.is(FileType::Directory) {
            return Err(Error::new(ErrorKind::NotADirectory, "not a directory")).in_inode(dir);
        }
        if name.len() > NAME_MAX_BYTES {
            let e = Error::new(ErrorKind::NameTooLong, "a name has at most 255 bytes");
            return Err(e).in_inode(dir);
        }
        directory::lookup(self.volume(), &inode, name)
    }

    /// The same for something that must be there.
    fn find_existing(&self, dir: u32, name: &[u8]) -> Result<u32> {
        let found = self.find(dir, name)?;
        found
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file"))
            .in_inode(dir)
    }
}

/// One directory more in `dir`. With `dir_nlink`, behind 65,000 links the count is 1, which says that
/// nobody counts any more; the kernel does so where there is an index only.
fn count_subdirectory(superblock: &Superblock, dir: &mut Inode) -> Result<()> {
    dir.links = match dir.links {
        // Not counted any more.
        1 => 1,
        links if links < LINKS_MAX => links.saturating_add(1),
        _ if superblock.features.has(ReadOnlyCompatible::DIR_NLINK)
            && superblock.features.has(Compatible::DIR_INDEX)
            && dir.has(InodeFlags::INDEX) =>
        {
            1
        }
        _ => {
            let reason = "the directory can't hold another directory";
            return Err(Error::new(ErrorKind::TooManyNames, reason)).in_inode(dir.number);
        }
    };
    Ok(())
}

/// One directory less in `dir`.
fn discount_subdirectory(dir: &mut Inode) {
    // Its own name, its `.`; below that it counts nobody.
    if dir.links > 2 {
        dir.links = dir.links.saturating_sub(1);
    }
}

/// A name was put into `dir` or taken out of it.
fn touch(dir: &mut Inode) {
    let now = now();
    dir.modified = now;
    dir.changed = now;
}
