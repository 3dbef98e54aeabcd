//! Names taken out and given to other inodes; `..`.

use diskfs_vfs::FileType;

use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, InInode, Result, Structure, Unsupported, malformed};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::changing::Changing;
use super::entries::Regions;
use super::lookup::{Located, Place, locate};
use super::region::{self, Found};
use super::{block, inline};

/// The longest name, `EXT4_NAME_LEN`.
const NAME_MAX_BYTES: usize = 255;

/// Fails for what can be no entry of its own, and for directories whose names are encrypted.
pub(super) fn check(directory: &Inode, name: &[u8]) -> Result<()> {
    check_changeable(directory)?;
    let bad = name.is_empty() || name == b"." || name == b"..";
    if bad || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        let e = Error::new(ErrorKind::Invalid, "no file can have this name");
        return Err(e).in_inode(directory.number);
    }
    if name.len() > NAME_MAX_BYTES {
        let e = Error::new(ErrorKind::NameTooLong, "a name has at most 255 bytes");
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

/// Takes a name out, and returns what it named.
///
/// # Errors
/// `NotFound`; `Unsupported` for encrypted directories; `Corrupt`, `Io`.
pub(crate) fn remove(handle: &Handle<'_>, directory: &mut Inode, name: &[u8]) -> Result<u32> {
    change(handle, directory, name, region::remove)
}

/// Has a name that is there name another inode.
///
/// # Errors
/// As [`remove`].
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
    change: impl FnOnce(&Superblock, &mut [u8], Found),
) -> Result<u32> {
    check(directory, name)?;
    let Some(Located { place, found }) = locate(handle.volume(), directory, name)? else {
        let e = Error::new(ErrorKind::NotFound, "no such file");
        return Err(e).in_inode(directory.number);
    };
    let superblock = &handle.volume().superblock;
    match place {
        Place::Block(number) => {
            let directory = Changing::new(handle, directory);
            let key = directory.block(number)?;
            directory.change_entries(key, |region| change(superblock, region, found))?;
        }
        Place::Inline(part) => {
            part.change(superblock, directory, |region| {
                change(superblock, region, found);
            })?;
        }
        // Names that have no entry are none for `check`.
        Place::Implied => {}
    }
    Ok(found.inode)
}

/// Says which inode is the directory's parent.
///
/// # Errors
/// `Unsupported` for encrypted directories; `Corrupt`, `Io`.
pub(crate) fn set_parent(handle: &Handle<'_>, directory: &mut Inode, parent: u32) -> Result<()> {
    check_changeable(directory)?;
    if directory.has(InodeFlags::INLINE_DATA) {
        inline::set_parent(directory, parent);
        return Ok(());
    }
    let Some(Located { found, .. }) = locate(handle.volume(), directory, b"..")? else {
        let problem = "it has no entry of `..`";
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
    let directory = Changing::new(handle, directory);
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

/// Whether a directory has no entries but `.` and `..`.
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
