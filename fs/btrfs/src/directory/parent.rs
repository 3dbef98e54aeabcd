//! The parents of directories, within a subvolume and above it.

use crate::error::{Error, ErrorKind, Result};
use crate::inode_ref::InodeName;
use crate::key::{Key, item};
use crate::root_ref::RootRef;
use crate::subvolumes::{FileId, ROOT_INODE, Subvolumes};
use crate::volume::Volume;

/// The longest path of a directory within its subvolume, in names: the longest path that Linux
/// accepts has 4096 bytes, but directories can be moved to make longer ones.
const MAX_NAMES: usize = 1 << 16;

/// The longest path of a directory within its subvolume, in bytes.
const MAX_PATH_BYTES: usize = 1 << 20;

/// Returns the parent of a directory; of the root of the tree, itself.
pub(crate) fn parent(volume: &Volume, subvolumes: &Subvolumes, dir: &FileId) -> Result<FileId> {
    if !dir.is_root() {
        let name = name_of(volume, dir)?;
        return Ok(FileId {
            subvolume: dir.subvolume.clone(),
            inode: name.dir,
        });
    }
    let is_top = dir.number()?.0 == ROOT_INODE;
    let above = if is_top {
        None
    } else {
        place_of(volume, dir.subvolume.id)?
    };
    match above {
        None => Ok(dir.clone()),
        Some((above, place)) => Ok(FileId {
            subvolume: subvolumes.open(volume, above)?,
            inode: place.dir,
        }),
    }
}

/// Returns the parent of a subvolume, and the entry there; `None` for the one at the top, and for
/// one without a name.
pub(crate) fn place_of(volume: &Volume, id: u64) -> Result<Option<(u64, RootRef)>> {
    let key = Key::new(id, item::ROOT_BACKREF, 0);
    let cursor = volume.at_or_after(&volume.root_tree, key)?;
    let found = cursor.item().filter(|found| found.key.is_beside(key));
    found
        .map(|found| Ok((found.key.offset, RootRef::parse(found)?)))
        .transpose()
}

/// Returns the name of a directory, which has only one.
fn name_of(volume: &Volume, dir: &FileId) -> Result<InodeName> {
    let tree = &dir.subvolume.tree;
    for item_type in [item::INODE_REF, item::INODE_EXTREF] {
        let key = Key::new(dir.inode, item_type, 0);
        let cursor = volume.at_or_after(tree, key)?;
        if let Some(found) = cursor.item().filter(|found| found.key.is_beside(key)) {
            return InodeName::first_of(found);
        }
    }
    let reason = format!("directory {} of btrfs has no parent", dir.inode);
    Err(Error::new(ErrorKind::Corrupt, reason))
}

/// Returns the names that lead from the root of a subvolume to one of its directories.
pub(crate) fn path_within(volume: &Volume, dir: &FileId) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut len_bytes = 0_usize;
    let mut dir = dir.clone();
    while !dir.is_root() {
        let name = name_of(volume, &dir)?;
        len_bytes = len_bytes.saturating_add(name.name.len());
        if names.len() >= MAX_NAMES || len_bytes > MAX_PATH_BYTES {
            let reason = format!("directory {} of btrfs contains itself", dir.inode);
            return Err(Error::new(ErrorKind::Corrupt, reason));
        }
        dir.inode = name.dir;
        names.push(name.name);
    }
    names.reverse();
    Ok(names)
}
