//! Files that become shorter or longer.

use crate::error::Result;
use crate::file_blocks;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::writer::namespace::not_append_only;
use crate::writer::{Core, Orphans, now};

use super::blocks::{zero_behind_end, zero_part};
use super::delay::write_back;
use super::inline;
use super::limit::{check_size, set_size};
use super::{CREDITS, writable};

impl Core {
    /// Makes a file so long, in bytes: cut, or grown with a hole. What is allocated behind its end
    /// is freed when it does not grow.
    pub(crate) fn set_len(&self, number: u32, size_bytes: u64) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = writable(handle, number)?;
            not_append_only(&inode)?;
            if size_bytes <= inode.size_bytes {
                // What is kept in memory lies behind that.
                self.forget_delayed(number);
            } else {
                write_back(handle, &mut inode)?;
            }
            if size_bytes == 0 && inode.size_bytes > 0 {
                self.delayed.note_emptied(number);
            }
            let time = now();
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

/// Makes a file longer, with zeroes.
pub(super) fn grow(handle: &Handle<'_>, inode: &mut Inode, size_bytes: u64) -> Result<()> {
    zero_behind_end(handle, inode, size_bytes)?;
    set_size(handle, inode, size_bytes)
}

/// Cuts a file, and stores it. While that takes more than one transaction it is an orphan, so that
/// it is cut to its end after a crash.
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
    // An unnamed file is one already, and stays it.
    let protect =
        !file_blocks::goes_in_one_step(handle.volume(), inode) && !orphans.contains(inode.number);
    if protect {
        handle.store(inode)?;
        orphans.add(handle, inode.number)?;
    }
    file_blocks::remove(handle, inode, first..file_blocks::END)?;
    handle.store(inode)?;
    if protect {
        handle.go_on(CREDITS)?;
        orphans.remove(handle, inode.number)?;
    }
    Ok(())
}
