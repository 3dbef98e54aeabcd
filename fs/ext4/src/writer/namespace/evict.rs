//! Files that go away: their blocks, their attributes, their inode.

use diskfs_vfs::FileType;

use crate::bytes;
use crate::error::{ErrorKind, Result};
use crate::file_blocks;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;
use crate::writer::{Core, Orphans, now};
use crate::xattr;

/// How many blocks the removal of a file changes at least at a time: bitmaps and descriptors of some
/// groups, its tree, its attributes.
pub(super) const CREDITS: u32 = 64;

/// How many blocks the removal of a small file changes.
pub(super) const CREDITS_SMALL: u32 = file_blocks::REMOVE_CREDITS;

/// What is left to do when a file lost a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Left {
    Nothing,
    /// [`Core::evict`], when the operation is over.
    Eviction,
}

/// Takes one name away from an inode, and stores it. When it was the last, a small file is gone
/// then, and any other is an orphan.
pub(super) fn drop_link(handle: &Handle<'_>, orphans: &Orphans, inode: &mut Inode) -> Result<Left> {
    inode.links = if inode.is(FileType::Directory) {
        0
    } else {
        inode.links.saturating_sub(1)
    };
    inode.changed = now();
    handle.store(inode)?;
    if inode.links != 0 {
        return Ok(Left::Nothing);
    }
    if is_small(handle.volume(), inode) && !handle.holds.contains(inode.number) {
        release(handle, inode)?;
        free(handle, inode)?;
        return Ok(Left::Nothing);
    }
    orphans.add(handle, inode.number)?;
    Ok(Left::Eviction)
}

/// Whether a file has so few runs that freeing them fits into the transaction that takes its name.
fn is_small(volume: &Volume, inode: &Inode) -> bool {
    !has_blocks(inode) || file_blocks::goes_in_one_step(volume, inode)
}

/// Takes back an inode that was made in this operation and that nobody names.
pub(super) fn undo_new(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    // It was just made: what it has is a few blocks, all within this transaction's credits.
    remove_now(handle, inode)
}

/// Removes an inode within the handle's transaction, whose credits must reach so far.
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
    let seconds = now().seconds.cast_unsigned();
    handle.set_deleted(inode.number, bytes::split64(seconds).1)?;
    let is_dir = inode.is(FileType::Directory);
    handle.volume().maps.forget(inode.number);
    handle.allocator.free_inode(handle, inode.number, is_dir)
}

impl Core {
    /// Removes an inode that has neither a name nor anybody who holds it.
    pub(crate) fn evict(&self, number: u32) -> Result<()> {
        if self.holds.contains(number) {
            return Ok(());
        }
        self.update(&[number], CREDITS, |handle| {
            let mut inode = match handle.inode(number) {
                Ok(inode) => inode,
                // Somebody else was faster.
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(e),
            };
            if inode.links != 0 || !self.orphans.contains(number) || self.holds.contains(number) {
                return Ok(());
            }
            release(handle, &mut inode)?;
            handle.go_on(CREDITS)?;
            self.orphans.remove(handle, number)?;
            free(handle, &mut inode)
        })
    }

    /// Finishes what was interrupted when the filesystem was last used: files that were to go away
    /// go, files that were to be cut are cut.
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
            handle.go_on(CREDITS)?;
            self.orphans.remove(handle, number)
        })
    }
}
