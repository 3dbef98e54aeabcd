//! A new name.

use diskfs_vfs::FileType;

use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::features::Compatible;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};

use super::changing::{Block, Changing};
use super::entry::NewEntry;
use super::{block, change, indexed, inline, region};

/// Adds an entry; that no other has the name is the caller's to know. `directory` may have got a block
/// and must be stored whatever comes of it: with an error but `Io` and `Corrupt` the directory is
/// whole, and lacks the name.
///
/// # Errors
/// `Invalid`, `NameTooLong` for what can be no name; `NoSpace`, also when an index can't be deeper;
/// `Unsupported` for encrypted directories; `Corrupt`, `Io`.
pub(crate) fn insert(
    handle: &Handle<'_>,
    directory: &mut Inode,
    name: &[u8],
    inode: u32,
    file_type: FileType,
) -> Result<()> {
    change::check(directory, name)?;
    check_encoding(handle, directory, name)?;
    let mut directory = Changing::new(handle, directory);
    let new = NewEntry {
        inode,
        name,
        file_type,
    };
    if directory.inode.has(InodeFlags::INLINE_DATA) {
        if inline::insert(directory.volume(), directory.inode, &new)? {
            return Ok(());
        }
        inline::move_to_block(&mut directory)?;
    }
    if block::is_indexed(directory.volume(), directory.inode) {
        return indexed::insert(&mut directory, &new);
    }
    // An index that the filesystem does not have is not kept up to date.
    directory.inode.flags.remove(InodeFlags::INDEX);
    linear(&mut directory, &new)
}

/// Fails for a name that is not UTF-8 where that is asked for.
fn check_encoding(handle: &Handle<'_>, directory: &Inode, name: &[u8]) -> Result<()> {
    let strict = handle.volume().superblock.strict_encoding;
    if strict && directory.has(InodeFlags::CASEFOLD) && std::str::from_utf8(name).is_err() {
        let e = Error::new(ErrorKind::Invalid, "the name is not UTF-8");
        return Err(e.with_hint("the filesystem's encoding is strict")).in_inode(directory.number);
    }
    Ok(())
}

/// Puts it into the first block that has room.
fn linear(directory: &mut Changing<'_, '_>, new: &NewEntry<'_>) -> Result<()> {
    let blocks = block::len_blocks(directory.volume(), directory.inode)?;
    for number in (0..blocks).map_while(|nth| u32::try_from(nth).ok().map(FileBlock)) {
        // As the kernel's, a directory may have holes to a reader; they stay.
        if !block::is_there(directory.volume(), directory.inode, number)? {
            continue;
        }
        let block = directory.block(number)?;
        let Some(full) = put(directory, block, new)? else {
            return Ok(());
        };
        if blocks == 1 {
            let superblock = &directory.volume().superblock;
            let has_index = superblock.features.has(Compatible::DIR_INDEX);
            if let Some(algorithm) = superblock.default_hash.filter(|_| has_index) {
                return indexed::begin(directory, &full, algorithm, new);
            }
        }
    }
    append(directory, new)
}

/// Puts it into a new block.
fn append(directory: &mut Changing<'_, '_>, new: &NewEntry<'_>) -> Result<()> {
    let superblock = &directory.volume().superblock;
    let added = directory.append_entries(|region| {
        let len = region.len();
        new.put(superblock, region, 0, len);
    });
    added.map(|_| ())
}

/// Puts it into this block, which comes back if it has no room.
pub(super) fn put(
    directory: &Changing<'_, '_>,
    block: Block,
    new: &NewEntry<'_>,
) -> Result<Option<Block>> {
    let superblock = &directory.volume().superblock;
    let room = region::room_for(superblock, directory.entries(&block), new.bytes());
    let start = block::start_of(directory.volume(), block.number);
    let Some(room) = room.map_err(|broken| broken.in_directory(directory.inode, start))? else {
        return Ok(Some(block));
    };
    directory.change_entries(block, |region| {
        region::insert(superblock, region, room, new);
    })?;
    Ok(None)
}
