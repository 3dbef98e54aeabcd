//! Changes of existing names: removal, replacement of the inode, and the entry `..`.

use diskfs_vfs::FileType;

use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, InInode, Result, Structure, Unsupported, malformed};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::editor::DirectoryEditor;
use super::entries::Regions;
use super::lookup::{EntryRegion, LocatedEntry, locate};
use super::region::{self, FoundEntry};
use super::{block, inline};

/// The maximum length of a name, `EXT4_NAME_LEN`.
const NAME_MAX_BYTES: usize = 255;

/// Fails for names that cannot be an entry of their own, and for encrypted directories.
pub(super) fn check(directory: &Inode, name: &[u8]) -> Result<()> {
    check_changeable(directory)?;
    let bad = name.is_empty() || name == b"." || name == b"..";
    if bad || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        let e = Error::new(ErrorKind::Invalid, "invalid name for a file");
        return Err(e).in_inode(directory.number);
    }
    if name.len() > NAME_MAX_BYTES {
        let e = Error::new(
            ErrorKind::NameTooLong,
            "the name is too long: at most 255 bytes",
        );
        return Err(e).in_inode(directory.number);
    }
    Ok(())
}

fn check_changeable(directory: &Inode) -> Result<()> {
    if directory.has(InodeFlags::ENCRYPT) {
        return Err(Unsupported::EncryptedDirectory).in_inode(directory.number);
    }
    Ok(())
}

/// Removes a name, and returns the inode that it referred to.
///
/// # Errors
/// `NotFound`; `Unsupported` for encrypted directories; `Corrupt`, `Io`.
pub(crate) fn remove(handle: &Handle<'_>, directory: &mut Inode, name: &[u8]) -> Result<u32> {
    change(handle, directory, name, region::remove)
}

/// Makes an existing name refer to another inode.
///
/// # Errors
/// Fails like [`remove`].
pub(crate) fn replace(
    handle: &Handle<'_>,
    directory: &mut Inode,
    name: &[u8],
    inode: u32,
    file_type: FileType,
) -> Result<()> {
    let replaced = change(handle, directory, name, |superblock, region, found| {
        region::replace(superblock, region, found, inode, file_type);
    });
    replaced.map(|_| ())
}

/// Changes the entry of a name.
fn change(
    handle: &Handle<'_>,
    directory: &mut Inode,
    name: &[u8],
    change: impl FnOnce(&Superblock, &mut [u8], FoundEntry),
) -> Result<u32> {
    check(directory, name)?;
    let Some(LocatedEntry { place, found }) = locate(handle.volume(), directory, name)? else {
        let e = Error::new(ErrorKind::NotFound, "no such file");
        return Err(e).in_inode(directory.number);
    };
    let superblock = &handle.volume().superblock;
    match place {
        EntryRegion::Block(number) => {
            let directory = DirectoryEditor::new(handle, directory);
            let key = directory.block(number)?;
            directory.change_entries(key, |region| change(superblock, region, found))?;
        }
        EntryRegion::Inline(part) => {
            part.change(superblock, directory, |region| {
                change(superblock, region, found);
            })?;
        }
        // `check` has rejected the names that have no entry.
        EntryRegion::Implied => {}
    }
    Ok(found.inode)
}

/// Sets the parent of a directory: the inode of its entry `..`.
///
/// # Errors
/// `Unsupported` for encrypted directories; `Corrupt`, `Io`.
pub(crate) fn set_parent(handle: &Handle<'_>, directory: &mut Inode, parent: u32) -> Result<()> {
    check_changeable(directory)?;
    if directory.has(InodeFlags::INLINE_DATA) {
        inline::set_parent(directory, parent);
        return Ok(());
    }
    let Some(LocatedEntry { found, .. }) = locate(handle.volume(), directory, b"..")? else {
        let problem = "missing entry `..`";
        return Err(malformed(Structure::DirectoryBlock(FileBlock(0)), problem))
            .in_inode(directory.number);
    };
    let volume = handle.volume();
    let superblock = &volume.superblock;
    let set = |region: &mut [u8]| {
        region::replace(superblock, region, found, parent, FileType::Directory);
    };
    let indexed = block::is_indexed(volume, directory);
    let index = block::htree_directory(volume, directory);
    let directory = DirectoryEditor::new(handle, directory);
    let first = directory.block(FileBlock(0))?;
    if indexed {
        directory.change(first, |bytes| {
            set(bytes);
            index.seal_root(bytes);
        })
    } else {
        directory.change_entries(first, set)
    }
}

/// Returns true if a directory has no entries but `.` and `..`.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn is_empty(volume: &Volume, directory: &Inode) -> Result<bool> {
    if directory.has(InodeFlags::INLINE_DATA) {
        return inline::is_empty(volume, directory);
    }
    for block in Regions::new(volume, directory, 0)? {
        let block = block?;
        let other = region::find(&volume.superblock, &block.bytes, |name| {
            name != b"." && name != b".."
        });
        let other = other.map_err(|broken| broken.in_directory(directory, block.start))?;
        if other.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
