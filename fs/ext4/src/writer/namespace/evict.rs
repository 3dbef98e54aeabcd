//! Deleting files: their blocks, their attributes, their inode.

use diskfs_vfs::FileType;

use crate::bytes;
use crate::error::{ErrorKind, Result};
use crate::file_blocks;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;
use crate::writer::{Core, Orphans};
use crate::xattr;

/// The minimum credits for a step of deleting a file: bitmaps and descriptors of some groups, its
/// tree, its attributes.
pub(super) const CREDITS: u32 = 64;

/// The credits for deleting a small file.
pub(super) const CREDITS_SMALL: u32 = file_blocks::REMOVE_CREDITS;

/// The remaining work after a file has lost a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum RemainingWork {
    Nothing,
    /// [`Core::evict`] must be called after the operation.
    Eviction,
}

/// Removes one link of an inode, and stores it. If it was the last one, a small file is deleted at
/// once, and any other goes onto the orphan list.
pub(super) fn drop_link(
    handle: &Handle<'_>,
    orphans: &Orphans,
    inode: &mut Inode,
) -> Result<RemainingWork> {
    inode.links = if inode.is(FileType::Directory) {
        0
    } else {
        inode.links.saturating_sub(1)
    };
    inode.changed = handle.now();
    handle.store(inode)?;
    if inode.links != 0 {
        return Ok(RemainingWork::Nothing);
    }
    if is_small(handle.volume(), inode) && !handle.holds.contains(inode.number) {
        release(handle, inode)?;
        free(handle, inode)?;
        return Ok(RemainingWork::Nothing);
    }
    orphans.add(handle, inode.number)?;
    Ok(RemainingWork::Eviction)
}

/// Returns true if a file has so few runs that freeing them fits into the transaction that removes
/// its name.
fn is_small(volume: &Volume, inode: &Inode) -> bool {
    !has_blocks(inode) || file_blocks::fits_in_one_step(volume, inode)
}

/// Deletes an inode that was created in this operation and has no name.
pub(super) fn undo_new(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    // A new inode has only a few blocks, within this transaction's credits.
    remove_now(handle, inode)
}

/// Deletes an inode within the handle's transaction, whose credits must suffice.
pub(crate) fn remove_now(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    release(handle, inode)?;
    free(handle, inode)
}

/// Frees all blocks and attributes of an inode.
fn release(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    handle.delayed.forget(handle.allocator, inode.number);
    handle.delayed.forget_emptied(inode.number);
    xattr::release_all(handle, inode)?;
    if has_blocks(inode) {
        file_blocks::remove(handle, inode, 0..file_blocks::END)?;
    }
    inode.size_bytes = 0;
    handle.store(inode)
}

pub(crate) fn has_blocks(inode: &Inode) -> bool {
    let kind = matches!(
        inode.file_type,
        Some(FileType::Regular | FileType::Directory) | None
    );
    let link = inode.is(FileType::Symlink) && inode.allocated_bytes > 0;
    (kind || link) && !inode.has(InodeFlags::INLINE_DATA)
}

/// Frees the inode itself.
fn free(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    inode.links = 0;
    handle.store(inode)?;
    let seconds = handle.now().seconds.cast_unsigned();
    handle.set_deleted(inode.number, bytes::split64(seconds).1)?;
    let is_dir = inode.is(FileType::Directory);
    handle.volume().maps.forget(inode.number);
    handle.allocator.free_inode(handle, inode.number, is_dir)
}

impl Core {
    /// Deletes an inode that has no name and is not held.
    pub(crate) fn evict(&self, number: u32) -> Result<()> {
        if self.holds.contains(number) {
            return Ok(());
        }
        self.update(&[number], CREDITS, |handle| {
            let mut inode = match handle.inode(number) {
                Ok(inode) => inode,
                // Another thread was faster.
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(e),
            };
            if inode.links != 0 || !self.orphans.contains(number) || self.holds.contains(number) {
                return Ok(());
            }
            release(handle, &mut inode)?;
            handle.extend_or_restart(CREDITS)?;
            self.orphans.remove(handle, number)?;
            free(handle, &mut inode)
        })
    }

    /// Completes what was interrupted when the filesystem was last used: deletions and truncations
    /// of files on the orphan list.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn finish_orphans(&self) -> Result<()> {
        for number in self.orphans.all() {
            let links = self.update(&[number], 1, |handle| Ok(handle.inode(number)?.links))?;
            if links == 0 {
                self.evict(number)?;
            } else {
                self.finish_truncation(number)?;
            }
        }
        Ok(())
    }

    fn finish_truncation(&self, number: u32) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = handle.inode(number)?;
            if inode.is(FileType::Regular) && !inode.has(InodeFlags::INLINE_DATA) {
                let size = handle.volume().superblock.block_size;
                let end = size.blocks_for(inode.size_bytes);
                file_blocks::remove(handle, &mut inode, end..file_blocks::END)?;
                handle.store(&inode)?;
            }
            handle.extend_or_restart(CREDITS)?;
            self.orphans.remove(handle, number)
        })
    }
}
