//! Contents within the inode, changed; and files that outgrow it.

use crate::block::FileBlock;
use crate::bytes::{index, len_u64, put};
use crate::error::Result;
use crate::features::Incompatible;
use crate::file_blocks;
use crate::handle::Handle;
use crate::inline_data;
use crate::inode::{Inode, InodeFlags};
use crate::xattr;

use super::blocks::Data;

/// Writes `data` into the inode and stores it, if the contents are there, or can be, and have room.
/// Else they are in blocks afterwards, or nothing has changed.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
pub(super) fn write(handle: &Handle<'_>, inode: &mut Inode, data: Data<'_>) -> Result<bool> {
    let is_inline = inode.has(InodeFlags::INLINE_DATA);
    if !is_inline && !may_begin(handle, inode)? {
        return Ok(false);
    }
    let end = inode.size_bytes.max(data.end());
    if !has_room(handle, inode, end)? {
        move_to_block(handle, inode)?;
        return Ok(false);
    }
    let mut contents = if is_inline { read(inode)? } else { Vec::new() };
    contents.resize(index(end), 0);
    put(&mut contents, index(data.offset), data.bytes);
    replace(handle, inode, &contents)?;
    handle.store(inode)?;
    Ok(true)
}

/// Cuts a file whose contents are in the inode, or makes it longer with zeroes, if that is what it is
/// and it has room. Else as [`write`].
///
/// # Errors
/// As `write`.
pub(super) fn set_len(handle: &Handle<'_>, inode: &mut Inode, size_bytes: u64) -> Result<bool> {
    if !inode.has(InodeFlags::INLINE_DATA) {
        return Ok(false);
    }
    if !has_room(handle, inode, size_bytes)? {
        move_to_block(handle, inode)?;
        return Ok(false);
    }
    let mut contents = read(inode)?;
    contents.resize(index(size_bytes), 0);
    replace(handle, inode, &contents)?;
    handle.store(inode)?;
    Ok(true)
}

/// Has the contents in a block, if they are in the inode, and stores it.
///
/// # Errors
/// As [`write`].
pub(super) fn move_to_block(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    if !inode.has(InodeFlags::INLINE_DATA) {
        return Ok(());
    }
    let before = inode.clone();
    let moved = moved(handle, inode);
    if moved.is_err() {
        *inode = before;
    }
    moved
}

fn moved(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    let superblock = &handle.volume().superblock;
    let contents = read(inode)?;
    let size_bytes = inode.size_bytes;
    xattr::set_inline_data(superblock, inode, None)?;
    inode.flags.remove(InodeFlags::INLINE_DATA);
    if superblock.features.has(Incompatible::EXTENTS) {
        inode.flags.insert(InodeFlags::EXTENTS);
    }
    file_blocks::initialise(inode);
    handle.volume().maps.forget(inode.number);
    if !contents.is_empty() {
        inode.size_bytes = 0;
        let (_, block) = file_blocks::append_block(handle, inode)?;
        let mut bytes = contents;
        bytes.resize(superblock.block_size.len(), 0);
        handle.device.write_block(block, &bytes)?;
    }
    inode.size_bytes = size_bytes;
    handle.store(inode)
}

/// Whether a file without contents may have its first ones in the inode.
fn may_begin(handle: &Handle<'_>, inode: &Inode) -> Result<bool> {
    let volume = handle.volume();
    if !volume.superblock.features.has(Incompatible::INLINE_DATA) || inode.size_bytes != 0 {
        return Ok(false);
    }
    // What is allocated behind the end has been asked for.
    let allocated = file_blocks::runs(volume, inode, FileBlock(0)).next();
    Ok(allocated.transpose()?.is_none())
}

fn has_room(handle: &Handle<'_>, inode: &Inode, size_bytes: u64) -> Result<bool> {
    let room = xattr::inline_data_room(&handle.volume().superblock, inode)?;
    Ok(room.is_some_and(|room| {
        let all = inode.block.len().saturating_add(room);
        size_bytes <= len_u64(all)
    }))
}

fn read(inode: &Inode) -> Result<Vec<u8>> {
    // What an inode has room for, even when its size says more.
    let behind = inline_data::behind_block(inode)?;
    let stored = inode.block.iter().chain(behind).copied();
    let mut contents: Vec<u8> = stored.take(index(inode.size_bytes)).collect();
    let most = inode.block.len().saturating_add(behind.len());
    contents.resize(index(inode.size_bytes).min(most), 0);
    Ok(contents)
}

/// Gives an inode its contents, which have room in it.
fn replace(handle: &Handle<'_>, inode: &mut Inode, contents: &[u8]) -> Result<()> {
    let superblock = &handle.volume().superblock;
    let (first, rest) = match contents.split_at_checked(inode.block.len()) {
        Some(parts) => parts,
        None => (contents, &[][..]),
    };
    inode.flags.remove(InodeFlags::EXTENTS);
    inode.flags.insert(InodeFlags::INLINE_DATA);
    inode.block.fill(0);
    put(&mut inode.block, 0, first);
    handle.volume().maps.forget(inode.number);
    // The attribute is there even when it is empty: by it the contents are known to be inline.
    xattr::set_inline_data(superblock, inode, Some(rest))?;
    inode.size_bytes = len_u64(contents.len());
    Ok(())
}
