//! Insertion of a name into a directory.

use diskfs_vfs::FileType;

use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::features::Compatible;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};

use super::editor::{Block, DirectoryEditor};
use super::entry::NewEntry;
use super::{block, change, indexed, inline, region};

/// Adds an entry. The caller ensures that the name does not exist yet. `directory` may get a new
/// block and must be stored whatever the result: after any error but `Io` and `Corrupt` the
/// directory is consistent, and only lacks the name.
///
/// # Errors
/// `Invalid`, `NameTooLong` for invalid names; `NoSpace`, also if an index cannot become deeper;
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
    let mut directory = DirectoryEditor::new(handle, directory);
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
    // Without the feature `dir_index` the index would not be kept up to date.
    directory.inode.flags.remove(InodeFlags::INDEX);
    linear(&mut directory, &new)
}

/// Fails for a name that is not valid UTF-8 in a directory that requires it.
fn check_encoding(handle: &Handle<'_>, directory: &Inode, name: &[u8]) -> Result<()> {
    let strict = handle.volume().superblock.strict_encoding;
    if strict && directory.has(InodeFlags::CASEFOLD) && std::str::from_utf8(name).is_err() {
        let e = Error::new(ErrorKind::Invalid, "the name is not valid UTF-8");
        return Err(e.with_hint("the filesystem enforces its encoding (strict mode)"))
            .in_inode(directory.number);
    }
    Ok(())
}

/// Adds the entry to the first block that has room.
fn linear(directory: &mut DirectoryEditor<'_, '_>, new: &NewEntry<'_>) -> Result<()> {
    let blocks = block::len_blocks(directory.volume(), directory.inode)?;
    for number in (0..blocks).map_while(|nth| u32::try_from(nth).ok().map(FileBlock)) {
        // Like the kernel, a reader accepts holes in a directory; they are kept.
        if !block::is_mapped(directory.volume(), directory.inode, number)? {
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

/// Adds the entry in a new block.
fn append(directory: &mut DirectoryEditor<'_, '_>, new: &NewEntry<'_>) -> Result<()> {
    let superblock = &directory.volume().superblock;
    let added = directory.append_entries(|region| {
        let len = region.len();
        new.put(superblock, region, 0, len);
    });
    added.map(|_| ())
}

/// Adds the entry to this block. Returns the block if it has no room.
pub(super) fn put(
    directory: &DirectoryEditor<'_, '_>,
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
