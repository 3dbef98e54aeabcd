//! From a name to its inode.

use std::sync::Arc;

use super::entries::{Regions, search};
use super::{block, casefold, encrypted_name, inline};
use crate::block::FileBlock;
use crate::error::Result;
use crate::htree::{self, Outcome};
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// The inode that `name` names in a directory; `None` without such an entry.
pub(crate) fn lookup(volume: &Volume, directory: &Arc<Inode>, name: &[u8]) -> Result<Option<u32>> {
    if directory.has(InodeFlags::ENCRYPT) {
        return scan(volume, directory, |stored| {
            encrypted_name::shown(volume, directory, stored) == name
        });
    }
    let exact = match in_index(volume, directory, name)? {
        Outcome::Found(inode) => Some(inode),
        Outcome::Absent => None,
        Outcome::NotIndexed => scan(volume, directory, |stored| stored == name)?,
    };
    if exact.is_some() || !directory.has(InodeFlags::CASEFOLD) {
        return Ok(exact);
    }
    let Some(folded) = casefold::fold(name) else {
        return Ok(None);
    };
    scan(volume, directory, |stored| {
        casefold::fold(stored).is_some_and(|stored| stored == folded)
    })
}

/// Searches all of a directory.
fn scan(
    volume: &Volume,
    directory: &Arc<Inode>,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<u32>> {
    if directory.has(InodeFlags::INLINE_DATA) {
        return inline::search(volume, directory, is_it);
    }
    for region in Regions::new(volume, Arc::clone(directory), 0)? {
        let region = region?;
        let found = search(volume, directory, (region.start, &region.bytes), &mut is_it)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Searches by the directory's index, if it has one that this name's hash is in: `.` and `..` are
/// not, and the hashes of a casefolded directory are of folded names.
fn in_index(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Outcome<u32>> {
    let usable = block::is_indexed(volume, directory)
        && !directory.has(InodeFlags::INLINE_DATA)
        && !directory.has(InodeFlags::CASEFOLD)
        && name != b"."
        && name != b"..";
    if !usable {
        return Ok(Outcome::NotIndexed);
    }
    let blocks = Blocks {
        volume,
        directory,
        name,
    };
    htree::lookup(&block::htree_directory(volume, directory), &blocks, name)
}

struct Blocks<'a> {
    volume: &'a Volume,
    directory: &'a Inode,
    name: &'a [u8],
}

impl htree::Blocks for Blocks<'_> {
    type Block = Arc<[u8]>;
    type Entry = u32;

    fn block(&self, block: FileBlock) -> Result<Arc<[u8]>> {
        block::read(self.volume, self.directory, block)
    }

    fn search(&self, leaf: FileBlock) -> Result<Option<u32>> {
        let bytes = block::read(self.volume, self.directory, leaf)?;
        let start = block::start_of(self.volume, leaf);
        search(self.volume, self.directory, (start, &bytes), |stored| {
            stored == self.name
        })
    }
}
