//! Truncating and extending files.

use crate::error::Result;
use crate::file_blocks;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::writer::namespace::not_append_only;
use crate::writer::{Core, Orphans};

use super::blocks::{zero_after_end, zero_part};
use super::delay::write_back;
use super::inline;
use super::limit::{check_size, set_size};
use super::{CREDITS, writable};

impl Core {
    /// Sets the length of a file in bytes: it is truncated, or extended with a hole. If it does not
    /// grow, blocks allocated after its end are freed.
    pub(crate) fn set_len(&self, number: u32, size_bytes: u64) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = writable(handle, number)?;
            not_append_only(&inode)?;
            if size_bytes <= inode.size_bytes {
                // The range kept in memory is after the new end.
                self.forget_delayed(number);
            } else {
                write_back(handle, &mut inode)?;
            }
            if size_bytes == 0 && inode.size_bytes > 0 {
                self.delayed.note_emptied(number);
            }
            let time = handle.now();
            (inode.modified, inode.changed) = (time, time);
            if inline::set_len(handle, &mut inode, size_bytes)? {
                return Ok(());
            }
            if size_bytes > inode.size_bytes {
                check_size(handle.volume(), &inode, size_bytes)?;
                grow(handle, &mut inode, size_bytes)?;
                handle.store(&inode)
            } else {
                cut(handle, &self.orphans, &mut inode, size_bytes)
            }
        })
    }
}

/// Extends a file with zeroes.
pub(super) fn grow(handle: &Handle<'_>, inode: &mut Inode, size_bytes: u64) -> Result<()> {
    zero_after_end(handle, inode, size_bytes)?;
    set_size(handle, inode, size_bytes)
}

/// Truncates a file, and stores it. If that needs more than one transaction, the file is on the
/// orphan list meanwhile, so that the truncation is completed after a crash.
fn cut(handle: &Handle<'_>, orphans: &Orphans, inode: &mut Inode, size_bytes: u64) -> Result<()> {
    let size = handle.volume().superblock.block_size;
    let first = size.blocks_for(size_bytes);
    zero_part(
        handle,
        inode,
        size_bytes,
        size.bytes_of(first).min(inode.size_bytes),
    )?;
    inode.size_bytes = size_bytes;
    // An unnamed file is on the orphan list already, and stays there.
    let protect =
        !file_blocks::fits_in_one_step(handle.volume(), inode) && !orphans.contains(inode.number);
    if protect {
        handle.store(inode)?;
        orphans.add(handle, inode.number)?;
    }
    file_blocks::remove(handle, inode, first..file_blocks::END)?;
    handle.store(inode)?;
    if protect {
        handle.extend_or_restart(CREDITS)?;
        orphans.remove(handle, inode.number)?;
    }
    Ok(())
}
