//! What is in files, changed.
//!
//! Contents go straight to the device, before the handle is closed that makes them part of the
//! file: a commit flushes the device before its own last block, so no file ever shows what its
//! blocks had before (`data=ordered`).

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

/// How many blocks of metadata one step changes: the map of the file, its inode, the superblock, and
/// what is the next orphan's.
const CREDITS: u32 = REMOVE_CREDITS + 6;

/// A regular file whose contents may be changed.
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
        _ => return Err(Error::new(ErrorKind::Invalid, "has no contents to write")),
    }
    attributes::check_writable(inode)
}
