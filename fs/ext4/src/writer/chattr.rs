//! The changes of chattr(1): flags and the project ID, by the rules of the kernel's
//! `ext4_fileattr_set`.

use diskfs_vfs::{FileAttributes, FileType};

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::features::{Incompatible, ReadOnlyCompatible};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};

use super::Core;
use super::namespace::live;

/// The credits: an inode and its block of the inode table.
const CREDITS: u32 = 8;

/// The flags that a program may ask to change, `EXT4_FL_USER_MODIFIABLE`.
const MODIFIABLE: u32 = 0x624b_c0ff;

/// The flags among these that change how a file's contents are stored, which is not supported:
/// journalled contents, extents, direct access.
const STORED: InodeFlags = InodeFlags::JOURNAL_DATA
    .union(InodeFlags::EXTENTS)
    .union(InodeFlags::DAX);

/// The flags that only directories have: `EXT4_REG_FLMASK` excludes them.
const OF_DIRECTORIES: InodeFlags = InodeFlags::DIR_SYNC
    .union(InodeFlags::TOP_DIR)
    .union(InodeFlags::PROJECT_INHERIT)
    .union(InodeFlags::CASEFOLD);

/// The flags that symlinks, devices, FIFOs and sockets can have: `EXT4_OTHER_FLMASK`.
const OF_OTHERS: InodeFlags = InodeFlags::NO_DUMP.union(InodeFlags::NO_ATIME);

impl Core {
    /// Sets the flags and the project ID of a file.
    pub(crate) fn set_file_attributes(&self, number: u32, wanted: FileAttributes) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = live(handle, number)?;
            set(handle, &mut inode, wanted).in_inode(number)?;
            inode.changed = handle.now();
            handle.store_attributes(&inode)
        })
    }
}

fn set(handle: &Handle<'_>, inode: &mut Inode, wanted: FileAttributes) -> Result<()> {
    if wanted.flags & !Inode::VISIBLE_FLAGS != 0 {
        return Err(unsupported("a file attribute that ext4 does not have"));
    }
    // chattr passes all flags that lsattr shows: those that cannot be set keep their value.
    let settable = InodeFlags::from_bits_retain(wanted.flags & MODIFIABLE);
    let kept = InodeFlags::from_bits_retain(inode.flags.bits() & !MODIFIABLE);
    let flags = kept.union(settable);
    check_type(inode, settable)?;
    if inode.has(InodeFlags::IMMUTABLE)
        && flags.contains(InodeFlags::IMMUTABLE)
        && (flags != inode.flags || wanted.project != inode.project)
    {
        let reason = "the file is immutable; clear the flag with `chattr -i`";
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
        "a file attribute that this type of file does not have",
    ))
}

/// Checks a change of casefold. It decides whether the names of a directory are stored by their
/// folded form, so it cannot change while the directory has names.
fn check_casefold(handle: &Handle<'_>, inode: &Inode) -> Result<()> {
    let volume = handle.volume();
    if !volume.superblock.features.has(Incompatible::CASEFOLD) {
        return Err(unsupported("casefold without the feature `casefold`"));
    }
    if !directory::is_empty(volume, inode)? {
        let reason = "casefold can be changed for an empty directory only";
        return Err(Error::new(ErrorKind::NotEmpty, reason));
    }
    Ok(())
}

fn check_project(handle: &Handle<'_>, inode: &Inode) -> Result<()> {
    let features = handle.volume().superblock.features;
    if !features.has(ReadOnlyCompatible::PROJECT) {
        return Err(unsupported("a project ID without the feature `project`"));
    }
    if !inode.has_project() {
        return Err(unsupported("a project ID in an inode without room for it"));
    }
    Ok(())
}
