//! Directories within the inode.
//!
//! `i_block` begins with the parent's inode number; entries fill the rest of it, and then the value
//! of the attribute `system.data`. `.` and `..` have no entries.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Inline
//! Directories".

use diskfs_vfs::{DirEntry, FileType, InodeNumber};

use super::entries::{broken, dir_entry};
use super::entry::Entry;
use crate::bytes::{le32, len_u64};
use crate::error::{InInode, Result};
use crate::inline_data;
use crate::inode::Inode;
use crate::volume::Volume;

/// The parent's inode number, before the first entry.
const PARENT_BYTES: usize = 4;
/// The cookie of `.`; what stands for byte 1 of the directory. No entry begins so early.
const DOT_COOKIE: u64 = 1;
const DOT_DOT_COOKIE: u64 = 2;

/// The two regions of entries, each with where it begins.
fn regions<'a>(inode: &'a Inode, rest: &'a [u8]) -> [(u64, &'a [u8]); 2] {
    let first = inode.block.get(PARENT_BYTES..).unwrap_or_default();
    [
        (len_u64(PARENT_BYTES), first),
        (len_u64(inode.block.len()), rest),
    ]
}

/// All entries, `.` and `..` first; the last one may be an error. There are no more than an inode
/// has room for.
pub(super) fn entries(volume: &Volume, directory: &Inode) -> Result<Vec<Result<DirEntry>>> {
    let rest = inline_data::behind_block(directory)?;
    let mut entries = vec![
        Ok(dot(b".", directory.number, DOT_COOKIE)),
        Ok(dot(b"..", parent(directory), DOT_DOT_COOKIE)),
    ];
    for (start, bytes) in regions(directory, rest) {
        if let Err(e) = push_region(volume, directory, (start, bytes), &mut entries) {
            entries.push(Err(e));
            break;
        }
    }
    Ok(entries)
}

fn push_region(
    volume: &Volume,
    directory: &Inode,
    (start, bytes): (u64, &[u8]),
    entries: &mut Vec<Result<DirEntry>>,
) -> Result<()> {
    let mut offset = 0;
    while offset < bytes.len() {
        let at = start.saturating_add(len_u64(offset));
        let entry = Entry::parse(&volume.superblock, bytes, offset)
            .map_err(|problem| broken(at, problem))
            .in_inode(directory.number)?;
        let cookie = start.saturating_add(len_u64(entry.end));
        entries.extend(dir_entry(volume, directory, entry, at, cookie)?.map(Ok));
        offset = entry.end;
    }
    Ok(())
}

/// The inode whose name `is_it`.
pub(super) fn search(
    volume: &Volume,
    directory: &Inode,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<u32>> {
    if is_it(b".") {
        return Ok(Some(directory.number));
    }
    if is_it(b"..") {
        return Ok(Some(parent(directory)));
    }
    let rest = inline_data::behind_block(directory)?;
    for region in regions(directory, rest) {
        let found = super::entries::search(volume, directory, region, &mut is_it)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn parent(directory: &Inode) -> u32 {
    le32(&directory.block, 0).unwrap_or(0)
}

fn dot(name: &[u8], inode: u32, cookie: u64) -> DirEntry {
    DirEntry {
        name: name.to_vec(),
        inode: InodeNumber(u64::from(inode)),
        file_type: Some(FileType::Directory),
        cookie,
    }
}
