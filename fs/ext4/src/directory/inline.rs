//! Inline directories, stored in the inode.
//!
//! `i_block` begins with the parent's inode number. Entries fill the rest of it, and then the value
//! of the attribute `system.data`. `.` and `..` have no entries.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Inline
//! Directories".

use diskfs_vfs::{DirEntry, FileType, InodeNumber};

use super::editor::DirectoryEditor;
use super::entries::dir_entry;
use super::entry::{NewEntry, put_unused};
use super::initialise::Dots;
use super::lookup::{EntryRegion, LocatedEntry};
use super::region::{self, FoundEntry};
use crate::bytes::{le32, len_u64, put};
use crate::error::Result;
use crate::features::Incompatible;
use crate::file_blocks;
use crate::inode::{Inode, InodeFlags};
use crate::superblock::Superblock;
use crate::volume::Volume;
use crate::{inline_data, xattr};

/// The size of the parent's inode number, before the first entry.
const PARENT_BYTES: usize = 4;
/// The size of `i_block`.
const BLOCK_BYTES: usize = 60;
/// The cookie of `.`, as if it were byte 1 of the directory. No entry begins so early.
const DOT_COOKIE: u64 = 1;
const DOT_DOT_COOKIE: u64 = 2;

/// The two regions of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InlineRegion {
    /// The rest of `i_block` after the parent's inode number.
    First,
    /// The value of `system.data`.
    Rest,
}

pub(super) const PARTS: [InlineRegion; 2] = [InlineRegion::First, InlineRegion::Rest];

impl InlineRegion {
    /// Returns where the region begins, in bytes of the directory.
    pub(super) fn start(self) -> u64 {
        len_u64(match self {
            Self::First => PARENT_BYTES,
            Self::Rest => BLOCK_BYTES,
        })
    }

    pub(super) fn of(self, directory: &Inode) -> Result<&[u8]> {
        match self {
            Self::First => Ok(directory.block.get(PARENT_BYTES..).unwrap_or_default()),
            Self::Rest => inline_data::after_block(directory),
        }
    }

    /// Changes the region.
    pub(super) fn change(
        self,
        superblock: &Superblock,
        directory: &mut Inode,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        match self {
            Self::First => {
                let first = directory.block.get_mut(PARENT_BYTES..);
                change(first.unwrap_or_default());
                Ok(())
            }
            Self::Rest => {
                let mut rest = self.of(directory)?.to_vec();
                change(&mut rest);
                xattr::set_inline_data(superblock, directory, Some(&rest))
            }
        }
    }
}

/// Returns all entries, `.` and `..` first; the last one may be an error. There are no more than an
/// inode has room for.
pub(super) fn entries(volume: &Volume, directory: &Inode) -> Result<Vec<Result<DirEntry>>> {
    let mut entries = vec![
        Ok(dot(directory, DOT_COOKIE)),
        Ok(dot_dot(directory, DOT_DOT_COOKIE)),
    ];
    for part in PARTS {
        let bytes = part.of(directory)?;
        if let Err(e) = push_region(volume, directory, (part.start(), bytes), &mut entries) {
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
    for placed in region::entries(&volume.superblock, bytes) {
        let placed = placed.map_err(|broken| broken.in_directory(directory, start))?;
        let at = start.saturating_add(len_u64(placed.offset));
        let cookie = start.saturating_add(len_u64(placed.entry.end));
        entries.extend(dir_entry(volume, directory, placed.entry, at, cookie)?.map(Ok));
    }
    Ok(())
}

/// Returns the entry for whose name `is_it` returns true.
pub(super) fn find(
    volume: &Volume,
    directory: &Inode,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<LocatedEntry>> {
    for (name, inode) in [(&b"."[..], directory.number), (b"..", parent(directory))] {
        if is_it(name) {
            return Ok(Some(LocatedEntry {
                place: EntryRegion::Implied,
                found: FoundEntry::implied(inode),
            }));
        }
    }
    for part in PARTS {
        let found = region::find(&volume.superblock, part.of(directory)?, &mut is_it);
        let found = found.map_err(|broken| broken.in_directory(directory, part.start()))?;
        if let Some(found) = found {
            let place = EntryRegion::Inline(part);
            return Ok(Some(LocatedEntry { place, found }));
        }
    }
    Ok(None)
}

fn parent(directory: &Inode) -> u32 {
    le32(&directory.block, 0).unwrap_or(0)
}

/// Sets the inode of `..`.
pub(super) fn set_parent(directory: &mut Inode, parent: u32) {
    put(&mut directory.block, 0, &parent.to_le_bytes());
}

/// Makes a new directory inline if there is room for `system.data` beside its attributes.
pub(super) fn initialise(
    superblock: &Superblock,
    directory: &mut Inode,
    parent: u32,
) -> Result<bool> {
    // Inodes of 128 bytes have no room for attributes.
    if xattr::inline_data_room(superblock, directory)?.is_none() {
        return Ok(false);
    }
    directory.flags.remove(InodeFlags::EXTENTS);
    directory.flags.insert(InodeFlags::INLINE_DATA);
    directory.block = [0; BLOCK_BYTES];
    set_parent(directory, parent);
    InlineRegion::First.change(superblock, directory, |region| {
        put_unused(superblock, region, 0, region.len());
    })?;
    // The kernel recognises inline contents by the attribute, even if it is empty.
    xattr::set_inline_data(superblock, directory, Some(&[]))?;
    directory.size_bytes = len_u64(BLOCK_BYTES);
    Ok(true)
}

/// Moves the contents of an inline directory to its first block. If there is no space on the
/// device, the directory stays as it is.
pub(super) fn move_to_block(directory: &mut DirectoryEditor<'_, '_>) -> Result<()> {
    let superblock = &directory.volume().superblock;
    let before = directory.inode.clone();
    let dots = Dots::new(superblock, before.number, parent(&before));
    let mut all: Vec<&[u8]> = dots.entries().collect();
    for part in PARTS {
        for placed in region::in_use(superblock, part.of(&before)?) {
            let placed = placed.map_err(|broken| broken.in_directory(&before, part.start()))?;
            all.push(placed.bytes());
        }
    }
    xattr::set_inline_data(superblock, directory.inode, None)?;
    directory.inode.flags.remove(InodeFlags::INLINE_DATA);
    if superblock.features.has(Incompatible::EXTENTS) {
        directory.inode.flags.insert(InodeFlags::EXTENTS);
    }
    directory.inode.size_bytes = 0;
    file_blocks::initialise(directory.inode);
    let added = directory.append_entries(|region| {
        region::pack(superblock, region, all.into_iter());
    });
    if let Err(e) = added {
        *directory.inode = before;
        return Err(e);
    }
    Ok(())
}

/// Returns true if the directory has no entries.
pub(super) fn is_empty(volume: &Volume, directory: &Inode) -> Result<bool> {
    for part in PARTS {
        let any = region::find(&volume.superblock, part.of(directory)?, |_| true);
        let any = any.map_err(|broken| broken.in_directory(directory, part.start()))?;
        if any.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds an entry if there is room for it. Returns whether it did.
pub(super) fn insert(volume: &Volume, directory: &mut Inode, new: &NewEntry<'_>) -> Result<bool> {
    let superblock = &volume.superblock;
    for part in PARTS {
        if part == InlineRegion::Rest {
            create_second_region(superblock, directory, new.bytes())?;
        }
        let room = region::room_for(superblock, part.of(directory)?, new.bytes());
        let room = room.map_err(|broken| broken.in_directory(directory, part.start()))?;
        if let Some(room) = room {
            part.change(superblock, directory, |region| {
                region::insert(superblock, region, room, new);
            })?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates the region after `i_block` with all the room of the inode, if the directory has none yet
/// and `needed` bytes fit.
fn create_second_region(
    superblock: &Superblock,
    directory: &mut Inode,
    needed: usize,
) -> Result<()> {
    if !InlineRegion::Rest.of(directory)?.is_empty() {
        return Ok(());
    }
    let room = xattr::inline_data_room(superblock, directory)?.unwrap_or(0);
    if room < needed {
        return Ok(());
    }
    let mut rest = vec![0; room];
    put_unused(superblock, &mut rest, 0, room);
    xattr::set_inline_data(superblock, directory, Some(&rest))?;
    directory.size_bytes = len_u64(BLOCK_BYTES.saturating_add(room));
    Ok(())
}

/// Returns the entry that is shown for `.`.
pub(super) fn dot(directory: &Inode, cookie: u64) -> DirEntry {
    implied(b".", directory.number, cookie)
}

/// Returns the entry that is shown for `..`.
pub(super) fn dot_dot(directory: &Inode, cookie: u64) -> DirEntry {
    implied(b"..", parent(directory), cookie)
}

fn implied(name: &[u8], inode: u32, cookie: u64) -> DirEntry {
    DirEntry {
        name: name.to_vec(),
        inode: InodeNumber(u64::from(inode)),
        file_type: Some(FileType::Directory),
        cookie,
    }
}
