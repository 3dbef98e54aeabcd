//! From a name to its entry.

use std::borrow::Cow;
use std::sync::Arc;

use super::entries::Regions;
use super::region::{self, Found};
use super::{block, casefold, encrypted_name, inline};
use crate::block::FileBlock;
use crate::error::Result;
use crate::htree::{self, Outcome};
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// Where a directory has entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Block(FileBlock),
    Inline(inline::Part),
    /// Of `.` and `..` in an inline directory, which have no entries.
    Implied,
}

/// An entry that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) place: Place,
    /// Within the entries there.
    pub(super) found: Found,
}

/// The inode that `name` names in a directory; `None` without such an entry.
pub(crate) fn lookup(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Option<u32>> {
    let located = locate(volume, directory, name)?;
    Ok(located.map(|located| located.found.inode))
}

/// The entry of `name`, if there is one. Without regard to case, the one of exactly that name comes
/// first.
pub(super) fn locate(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Option<Located>> {
    if directory.has(InodeFlags::ENCRYPT) {
        return find(volume, directory, None, |stored| {
            encrypted_name::shown(volume, directory, stored) == name
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

/// What the name's hash is of; `None` for names that are in no index.
fn hashed<'n>(directory: &Inode, name: &'n [u8]) -> Option<Cow<'n, [u8]>> {
    if name == b"." || name == b".." {
        return None;
    }
    if directory.has(InodeFlags::CASEFOLD) {
        return Some(casefold::hashed(name));
    }
    Some(Cow::Borrowed(name))
}

/// The entry whose name `is_it`: by the index, if the directory has one and what is hashed is known.
fn find(
    volume: &Volume,
    directory: &Inode,
    hashed: Option<&[u8]>,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<Located>> {
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
            Outcome::Found(located) => return Ok(Some(located)),
            Outcome::Absent => return Ok(None),
            Outcome::NotIndexed => {}
        }
    }
    scan(volume, directory, is_it)
}

/// Searches all blocks of a directory.
fn scan(
    volume: &Volume,
    directory: &Inode,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<Located>> {
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
) -> Result<Option<Located>> {
    let place = Place::Block(block);
    // With the tail, which is an entry that is not in use; the root of an index has none, and its
    // `..` reaches to the block's end.
    let found = region::find(&volume.superblock, bytes, is_it);
    let start = block::start_of(volume, block);
    let found = found.map_err(|broken| broken.in_directory(directory, start))?;
    Ok(found.map(|found| Located { place, found }))
}

/// The blocks of a directory to whom an index is read.
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
