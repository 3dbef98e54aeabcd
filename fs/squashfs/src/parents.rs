//! The directories of a filesystem without an export table, by the numbers that inodes store.
//!
//! A directory stores the number of its parent. Without the table nothing leads from a number to an
//! inode, so all directories are listed once, when a parent is first asked for.

use diskfs_vfs::{FileType, InodeNumber};

use crate::directory_entry::{Listing, RunPlace};
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::inode::Inode;
use crate::volume::{Parents, Volume};

/// The maximum number of directories that are remembered: 32 MiB of memory.
const DIRECTORIES_MAX: usize = 1 << 20;

/// Returns the directory with the stored number `stored`.
///
/// # Errors
/// `Corrupt` if there is none; `Unsupported` for too many directories.
pub(crate) fn directory(volume: &Volume, stored: u32) -> Result<InodeNumber> {
    let parents = if let Some(parents) = volume.parents.get() {
        parents
    } else {
        let found = all(volume)?;
        volume.parents.get_or_init(|| found)
    };
    let Some(reference) = parents.get(&stored) else {
        let reason = format!("invalid directory: its parent {stored} is not a directory");
        return Err(corrupt(reason, volume.superblock.inode_table));
    };
    volume.number_of(*reference, stored)
}

fn all(volume: &Volume) -> Result<Parents> {
    let mut parents = Parents::new();
    let mut pending = vec![volume.superblock.root];
    while let Some(reference) = pending.pop() {
        let inode = Inode::read_at(volume, reference)?;
        let directory = inode.directory()?;
        if parents.insert(inode.stored_number, reference).is_some() {
            continue;
        }
        let mut listing = Listing::new(volume, directory, RunPlace::first(directory))?;
        while let Some(entry) = listing.next_entry()? {
            if entry.file_type == FileType::Directory && !parents.contains_key(&entry.number) {
                pending.push(entry.reference);
                check_count(parents.len().saturating_add(pending.len()))?;
            }
        }
    }
    Ok(parents)
}

fn check_count(directories: usize) -> Result<()> {
    if directories <= DIRECTORIES_MAX {
        return Ok(());
    }
    let reason = "more than 1048576 directories without an export table are not supported";
    Err(Error::new(ErrorKind::Unsupported, reason))
}
