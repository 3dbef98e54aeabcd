//! What chattr(1) changes: flags and the project, by the rules of the kernel's `ext4_fileattr_set`.

use diskfs_vfs::{FileAttributes, FileType};

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::features::{Incompatible, ReadOnlyCompatible};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};

use super::namespace::live;
use super::{Core, now};

/// An inode and its table's block.
const CREDITS: u32 = 8;

/// `EXT4_FL_USER_MODIFIABLE`: what a program may ask to change.
const MODIFIABLE: u32 = 0x624b_c0ff;

/// Of these, what changes how a file's bytes are stored, which is not done here: journalled
/// contents, extents, direct access.
const STORED: InodeFlags = InodeFlags::JOURNAL_DATA
    .union(InodeFlags::EXTENTS)
    .union(InodeFlags::DAX);

/// What only a directory has: `EXT4_REG_FLMASK` leaves it out.
const OF_DIRECTORIES: InodeFlags = InodeFlags::DIR_SYNC
    .union(InodeFlags::TOP_DIR)
    .union(InodeFlags::PROJECT_INHERIT)
    .union(InodeFlags::CASEFOLD);

/// All that a symlink, a device, a FIFO or a socket has: `EXT4_OTHER_FLMASK`.
const OF_OTHERS: InodeFlags = InodeFlags::NO_DUMP.union(InodeFlags::NO_ATIME);

impl Core {
    /// Sets the flags and the project of a file.
    pub(crate) fn set_file_attributes(&self, number: u32, wanted: FileAttributes) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = live(handle, number)?;
            set(handle, &mut inode, wanted).in_inode(number)?;
            inode.changed = now();
            handle.store_attributes(&inode)
        })
    }
}

fn set(handle: &Handle<'_>, inode: &mut Inode, wanted: FileAttributes) -> Result<()> {
    if wanted.flags & !Inode::VISIBLE_FLAGS != 0 {
        return Err(unsupported("an attribute that ext4 does not have"));
    }
    // chattr gives back all that lsattr shows: what nobody can set keeps its value.
    let settable = InodeFlags::from_bits_retain(wanted.flags & MODIFIABLE);
    let kept = InodeFlags::from_bits_retain(inode.flags.bits() & !MODIFIABLE);
    let flags = kept.union(settable);
    check_type(inode, settable)?;
    if inode.has(InodeFlags::IMMUTABLE)
        && flags.contains(InodeFlags::IMMUTABLE)
        && (flags != inode.flags || wanted.project != inode.project)
    {
        let reason = "the file is immutable (chattr -i makes it changeable)";
        return Err(Error::new(ErrorKind::NotPermitted, reason));
    }
    let changed = flags.symmetric_difference(inode.flags);
    if changed.intersects(STORED) {
        return Err(unsupported(
            "a change of how the file's contents are stored",
        ));
    }
    if changed.contains(InodeFlags::CASEFOLD) {
        check_casefold(handle, inode)?;
    }
    if wanted.project != inode.project {
        check_project(handle, inode)?;
    }
    inode.flags = flags;
    inode.project = wanted.project;
    Ok(())
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not supported"))
}

fn check_type(inode: &Inode, settable: InodeFlags) -> Result<()> {
    let excess = match inode.file_type {
        Some(FileType::Directory) => InodeFlags::empty(),
        Some(FileType::Regular) => settable.intersection(OF_DIRECTORIES),
        _ => settable.difference(OF_OTHERS),
    };
    if excess.is_empty() {
        return Ok(());
    }
    Err(unsupported(
        "an attribute that this type of file does not have",
    ))
}

/// The names of a directory are stored by their folded form or not: all of them.
fn check_casefold(handle: &Handle<'_>, inode: &Inode) -> Result<()> {
    let volume = handle.volume();
    if !volume.superblock.features.has(Incompatible::CASEFOLD) {
        return Err(unsupported("casefold without the feature `casefold`"));
    }
    if !directory::is_empty(volume, inode)? {
        let reason = "whether names are folded can be changed in an empty directory only";
        return Err(Error::new(ErrorKind::NotEmpty, reason));
    }
    Ok(())
}

fn check_project(handle: &Handle<'_>, inode: &Inode) -> Result<()> {
    let features = handle.volume().superblock.features;
    if !features.has(ReadOnlyCompatible::PROJECT) {
        return Err(unsupported("a project without the feature `project`"));
    }
    if !inode.has_project() {
        return Err(unsupported("a project in an inode without room for it"));
    }
    Ok(())
}
