//! Changes of file contents.
//!
//! Contents are written to the device directly, before the handle that makes them part of the file
//! is closed. A commit flushes the device before its commit block, so no file ever shows the
//! previous contents of its blocks (`data=ordered`).

mod blocks;
mod delay;
mod fallocate;
mod flusher;
mod inline;
mod limit;
mod set_len;
mod write;

use diskfs_vfs::FileType;

use crate::error::{Error, ErrorKind, InInode, Result};
use crate::file_blocks::REMOVE_CREDITS;
use crate::handle::Handle;
use crate::inode::Inode;

use super::attributes;
use super::namespace::{live, not_immutable};

pub(crate) use flusher::start_writing_back;

/// The credits of one step: the map of the file, its inode, the superblock, and the next inode on
/// the orphan list.
const CREDITS: u32 = REMOVE_CREDITS + 6;

/// Returns a regular file whose contents may be changed.
fn writable(handle: &Handle<'_>, number: u32) -> Result<Inode> {
    let inode = live(handle, number)?;
    check_writable(&inode).in_inode(number)?;
    not_immutable(&inode)?;
    Ok(inode)
}

fn check_writable(inode: &Inode) -> Result<()> {
    match inode.file_type {
        Some(FileType::Regular) => {}
        Some(FileType::Directory) => {
            return Err(Error::new(ErrorKind::IsADirectory, "is a directory"));
        }
        _ => return Err(Error::new(ErrorKind::Invalid, "not a regular file")),
    }
    attributes::check_writable(inode)
}
