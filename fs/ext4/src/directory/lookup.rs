//! Lookup of a name's entry.

use std::borrow::Cow;
use std::sync::Arc;

use super::entries::Regions;
use super::region::{self, FoundEntry};
use super::{block, casefold, encrypted_name, inline};
use crate::block::FileBlock;
use crate::error::Result;
use crate::htree::{self, LookupOutcome};
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// The region of entries in which an entry is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryRegion {
    Block(FileBlock),
    Inline(inline::InlineRegion),
    /// No region: `.` and `..` of an inline directory have no entries.
    Implied,
}

/// An entry that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocatedEntry {
    pub(super) place: EntryRegion,
    /// The entry within its region.
    pub(super) found: FoundEntry,
}

/// Returns the inode that `name` refers to in a directory, or `None` if it has no such entry.
pub(crate) fn lookup(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Option<u32>> {
    let located = locate(volume, directory, name)?;
    Ok(located.map(|located| located.found.inode))
}

/// Returns the entry of `name`, if there is one. In a casefolded directory an exact match is
/// preferred.
pub(super) fn locate(
    volume: &Volume,
    directory: &Inode,
    name: &[u8],
) -> Result<Option<LocatedEntry>> {
    if directory.has(InodeFlags::ENCRYPT) {
        return find(volume, directory, None, |stored| {
            encrypted_name::displayed(volume, directory, stored) == name
        });
    }
    let hashed = hashed(directory, name);
    let exact = find(volume, directory, hashed.as_deref(), |stored| {
        stored == name
    })?;
    if exact.is_some() || !directory.has(InodeFlags::CASEFOLD) {
        return Ok(exact);
    }
    let Some(folded) = casefold::fold(name) else {
        return Ok(None);
    };
    find(volume, directory, hashed.as_deref(), |stored| {
        casefold::fold(stored).is_some_and(|stored| stored == folded)
    })
}

/// Returns the bytes whose hash is the name's, or `None` for names that are not in an index.
fn hashed<'n>(directory: &Inode, name: &'n [u8]) -> Option<Cow<'n, [u8]>> {
    if name == b"." || name == b".." {
        return None;
    }
    if directory.has(InodeFlags::CASEFOLD) {
        return Some(casefold::hashed(name));
    }
    Some(Cow::Borrowed(name))
}

/// Returns the entry for whose name `is_it` returns true. It uses the index if the directory has
/// one and the name's hash can be computed.
fn find(
    volume: &Volume,
    directory: &Inode,
    hashed: Option<&[u8]>,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<LocatedEntry>> {
    if directory.has(InodeFlags::INLINE_DATA) {
        return inline::find(volume, directory, is_it);
    }
    if let Some(hashed) = hashed
        && block::is_indexed(volume, directory)
    {
        let index = block::htree_directory(volume, directory);
        let blocks = Blocks { volume, directory };
        let outcome = htree::lookup(&index, &blocks, hashed, |leaf| {
            let bytes = block::read(volume, directory, leaf)?;
            search(volume, directory, leaf, &bytes, &mut is_it)
        })?;
        match outcome {
            LookupOutcome::Found(located) => return Ok(Some(located)),
            LookupOutcome::Absent => return Ok(None),
            LookupOutcome::NotIndexed => {}
        }
    }
    scan(volume, directory, is_it)
}

/// Searches all blocks of a directory.
fn scan(
    volume: &Volume,
    directory: &Inode,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<LocatedEntry>> {
    for region in Regions::new(volume, directory, 0)? {
        let region = region?;
        let found = search(volume, directory, region.block, &region.bytes, &mut is_it)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn search(
    volume: &Volume,
    directory: &Inode,
    block: FileBlock,
    bytes: &[u8],
    is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<LocatedEntry>> {
    let place = EntryRegion::Block(block);
    // Includes the tail, which is an unused entry. The root of an index has none: its `..` extends
    // to the block's end.
    let found = region::find(&volume.superblock, bytes, is_it);
    let start = block::start_of(volume, block);
    let found = found.map_err(|broken| broken.in_directory(directory, start))?;
    Ok(found.map(|found| LocatedEntry { place, found }))
}

/// The directory whose blocks the index code reads.
pub(super) struct Blocks<'a> {
    pub(super) volume: &'a Volume,
    pub(super) directory: &'a Inode,
}

impl htree::Blocks for Blocks<'_> {
    type Block = Arc<[u8]>;

    fn block(&self, block: FileBlock) -> Result<Arc<[u8]>> {
        block::read(self.volume, self.directory, block)
    }
}
