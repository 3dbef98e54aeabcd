//! Changes of inline data, and files that outgrow their inode.

use crate::block::FileBlock;
use crate::bytes::{index, len_u64, put};
use crate::error::Result;
use crate::features::Incompatible;
use crate::file_blocks;
use crate::handle::Handle;
use crate::inline_data;
use crate::inode::{Inode, InodeFlags};
use crate::xattr;

use super::blocks::WriteData;

/// Writes `data` into the inode and stores it, if the contents are or can be inline and fit.
/// Otherwise it moves inline contents to blocks, or changes nothing. Returns true if the data was
/// written.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
pub(super) fn write(handle: &Handle<'_>, inode: &mut Inode, data: WriteData<'_>) -> Result<bool> {
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

/// Truncates or extends a file whose contents are inline, if the new contents fit. Otherwise it
/// behaves like [`write`].
///
/// # Errors
/// Fails like `write`.
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

/// Moves inline contents to a block, and stores the inode.
///
/// # Errors
/// Fails like [`write`].
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

/// Returns true if the first contents of an empty file may be inline.
fn may_begin(handle: &Handle<'_>, inode: &Inode) -> Result<bool> {
    let volume = handle.volume();
    if !volume.superblock.features.has(Incompatible::INLINE_DATA) || inode.size_bytes != 0 {
        return Ok(false);
    }
    // Blocks of an empty file were preallocated on request, and must be used.
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
    // Only the bytes that fit into the inode, even if its size is larger.
    let behind = inline_data::after_block(inode)?;
    let stored = inode.block.iter().chain(behind).copied();
    let mut contents: Vec<u8> = stored.take(index(inode.size_bytes)).collect();
    let most = inode.block.len().saturating_add(behind.len());
    contents.resize(index(inode.size_bytes).min(most), 0);
    Ok(contents)
}

/// Sets the inline contents of an inode, which fit into it.
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
    // The attribute is stored even if it is empty: it marks the contents as inline.
    xattr::set_inline_data(superblock, inode, Some(rest))?;
    inode.size_bytes = len_u64(contents.len());
    Ok(())
}
