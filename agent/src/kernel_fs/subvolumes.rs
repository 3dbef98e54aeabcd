//! The paths of btrfs subvolumes.

use std::os::fd::BorrowedFd;

use diskfs_vfs::{Error, ErrorKind, Result};

use super::errors::io_failed;
use crate::kernel_calls::btrfs::{path_in_subvolume, search_root_tree};

/// The id of the top-level subvolume, which is the one mounted: `BTRFS_FS_TREE_OBJECTID`.
const TOP_LEVEL: u64 = 5;
/// `BTRFS_ROOT_TREE_DIR_OBJECTID`, the directory with the item that names the default subvolume.
const ROOT_TREE_DIR: u64 = 6;
const DIR_ITEM: u32 = 84;
/// The type of the item that has the parent subvolume and the directory of a subvolume.
const ROOT_BACKREF: u32 = 144;

/// The maximum nesting of subvolumes; deeper nesting is assumed to be a loop.
const MAX_DEPTH: usize = 64;

/// Returns the id of the default subvolume.
pub(super) fn default_id(mount: BorrowedFd<'_>) -> Result<u64> {
    let found =
        search_root_tree(mount, ROOT_TREE_DIR, DIR_ITEM).map_err(|error| io_failed(&error))?;
    let item = found.map(|(_, item)| item).unwrap_or_default();
    // `struct btrfs_dir_item` begins with the key of the subvolume.
    let id = item.first_chunk().map(|id| u64::from_le_bytes(*id));
    Ok(id.unwrap_or(TOP_LEVEL))
}

/// Returns the path of a subvolume's root below the top level.
pub(super) fn path(mount: BorrowedFd<'_>, id: u64) -> Result<Vec<u8>> {
    let mut path = Vec::new();
    let mut id = id;
    for _ in 0..MAX_DEPTH {
        if id == TOP_LEVEL {
            return Ok(path);
        }
        let found = search_root_tree(mount, id, ROOT_BACKREF).map_err(|error| io_failed(&error))?;
        let (key, item) = found.ok_or_else(|| none(id))?;
        let root_ref = RootRef::parse(&item).ok_or_else(|| none(id))?;
        let parent = key.offset;
        let dir =
            path_in_subvolume(mount, parent, root_ref.dir).map_err(|error| io_failed(&error))?;
        path = [b"/", &*dir, root_ref.name, &*path].concat();
        id = parent;
    }
    Err(none(id))
}

/// The place of a subvolume in its parent: `struct btrfs_root_ref`.
struct RootRef<'i> {
    dir: u64,
    name: &'i [u8],
}

impl<'i> RootRef<'i> {
    fn parse(item: &'i [u8]) -> Option<Self> {
        let (dir, item) = item.split_first_chunk()?;
        let (_sequence, item) = item.split_first_chunk::<8>()?;
        let (name_len, name) = item.split_first_chunk()?;
        Some(Self {
            dir: u64::from_le_bytes(*dir),
            name: name.get(..usize::from(u16::from_le_bytes(*name_len)))?,
        })
    }
}

fn none(id: u64) -> Error {
    Error::new(ErrorKind::NotFound, format!("no such subvolume: `{id}`"))
}
