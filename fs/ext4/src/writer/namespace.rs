//! Operations on names: creating, linking, removing and renaming files.
//!
//! Each operation looks names up with the directory's lock shared, then locks all inodes concerned,
//! and looks the names up again. If something has changed meanwhile, it starts again.

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

use super::Core;

/// The maximum length of a name, `EXT4_NAME_LEN`.
const NAME_MAX_BYTES: usize = 255;
/// The maximum number of hard links of a file, `EXT4_LINK_MAX`.
const LINKS_MAX: u16 = 65_000;

/// The credits of an operation on names besides those for directories: inodes, bitmaps,
/// descriptors, superblock, orphans, attributes, the first block of a new file.
const CREDITS_BASE: u32 = 32;
/// The credits for a new name in a directory: a leaf that is split, index blocks on three levels
/// that are split, and the metadata for allocating them.
const CREDITS_INSERT: u32 = 32;

/// Fails for invalid file names.
fn check_name(dir: u32, name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX_BYTES {
        let e = Error::new(
            ErrorKind::NameTooLong,
            "the name is too long: at most 255 bytes",
        );
        return Err(e).in_inode(dir);
    }
    let bad = name.is_empty() || name.contains(&b'/') || name.contains(&0);
    if bad || name == b"." || name == b".." {
        let e = Error::new(ErrorKind::Invalid, "invalid name for a file");
        return Err(e).in_inode(dir);
    }
    Ok(())
}

/// Returns a directory in which names may be changed.
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

/// Returns an inode that is a file in use: it has a name or is held open.
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
        "the file is immutable; clear the flag with `chattr -i`",
    )
}

pub(super) fn not_append_only(inode: &Inode) -> Result<()> {
    let reason = "the file is append-only; clear the flag with `chattr -a`";
    refuse(inode, InodeFlags::APPEND, reason)
}

fn refuse(inode: &Inode, flag: InodeFlags, reason: &'static str) -> Result<()> {
    if inode.has(flag) {
        return Err(Error::new(ErrorKind::NotPermitted, reason)).in_inode(inode.number);
    }
    Ok(())
}

/// Fails if a name of `inode` may not be removed from `dir`.
fn check_removable(dir: &Inode, inode: &Inode) -> Result<()> {
    not_append_only(dir)?;
    not_append_only(inode)?;
    not_immutable(inode)
}

/// Returns the inode that `name` refers to, by the directory's inode as it is in `handle`'s
/// transaction.
fn entry(handle: &Handle<'_>, dir: &Inode, name: &[u8]) -> Result<Option<u32>> {
    directory::lookup(handle.volume(), dir, name)
}

impl Core {
    /// Returns the inode that `name` refers to now.
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
            let e = Error::new(
                ErrorKind::NameTooLong,
                "the name is too long: at most 255 bytes",
            );
            return Err(e).in_inode(dir);
        }
        directory::lookup(self.volume(), &inode, name)
    }

    /// Returns the inode that `name` refers to, or fails if there is none.
    fn find_existing(&self, dir: u32, name: &[u8]) -> Result<u32> {
        let found = self.find(dir, name)?;
        found
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file"))
            .in_inode(dir)
    }
}

/// Counts an additional subdirectory of `dir`. With `dir_nlink`, after 65,000 links the count
/// becomes 1, which means that links are no longer counted; like the kernel, only in directories
/// with an index.
fn count_subdirectory(superblock: &Superblock, dir: &mut Inode) -> Result<()> {
    dir.links = match dir.links {
        // Links are no longer counted.
        1 => 1,
        links if links < LINKS_MAX => links.saturating_add(1),
        _ if superblock.features.has(ReadOnlyCompatible::DIR_NLINK)
            && superblock.features.has(Compatible::DIR_INDEX)
            && dir.has(InodeFlags::INDEX) =>
        {
            1
        }
        _ => {
            let reason = "the directory has the maximum number of subdirectories";
            return Err(Error::new(ErrorKind::TooManyNames, reason)).in_inode(dir.number);
        }
    };
    Ok(())
}

/// Counts a removed subdirectory of `dir`.
fn discount_subdirectory(dir: &mut Inode) {
    // The directory's own name and its `.` remain; a count below 2 means that links are not
    // counted.
    if dir.links > 2 {
        dir.links = dir.links.saturating_sub(1);
    }
}

/// Updates the times of `dir` after a name was added or removed.
fn touch(handle: &Handle<'_>, dir: &mut Inode) {
    let now = handle.now();
    dir.modified = now;
    dir.changed = now;
}
