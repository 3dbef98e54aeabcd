//! The replay of the log, and the choice of the subvolume that is the root of the tree.

use crate::checksum::name_hash;
use crate::dir_item::DirRecords;
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, item};
use crate::log_tree;
use crate::options::RootSubvolume;
use crate::subvolumes::{FileId, Node, ROOT_INODE, Subvolumes};
use crate::tree_root::tree;
use crate::volume::Volume;

/// Replays the log in memory, if there is one.
pub(super) fn replay_log(volume: &mut Volume) -> Result<()> {
    let Some(root) = volume.superblock().log_root else {
        return Ok(());
    };
    let replayed = log_tree::replay(volume, root)?;
    volume.notes.extend(replayed.notes);
    volume.apply(replayed.changes)
}

/// Returns the ID of the chosen subvolume.
pub(super) fn root_id(volume: &Volume, root: &RootSubvolume) -> Result<u64> {
    match root {
        RootSubvolume::Default => default_id(volume),
        RootSubvolume::Id(id) => Ok(*id),
        RootSubvolume::Path(path) => id_of_path(volume, path),
    }
}

/// Returns the ID of the default subvolume; without one, of the subvolume at the top, as on Linux.
pub(super) fn default_id(volume: &Volume) -> Result<u64> {
    const NAME: &[u8] = b"default";
    let dir = volume.superblock().root_dir_object_id;
    let key = Key::new(dir, item::DIR_ITEM, name_hash(NAME));
    let Some(found) = volume.find(&volume.root_tree, key)? else {
        return Ok(tree::FS);
    };
    for record in DirRecords::of(&found) {
        let record = record?;
        if record.name == NAME {
            return Ok(record.location.object_id);
        }
    }
    Ok(tree::FS)
}

/// Returns the ID of the subvolume with a path below the one at the top.
fn id_of_path(volume: &Volume, path: &[u8]) -> Result<u64> {
    let subvolumes = Subvolumes::default();
    let mut dir = FileId {
        subvolume: subvolumes.open(volume, tree::FS)?,
        inode: ROOT_INODE,
    };
    for name in path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
    {
        let number = directory::lookup(volume, &subvolumes, &dir, name);
        let number = number.map_err(|e| e.in_path(path))?;
        dir = match subvolumes.node(number)? {
            Node::File(file) => file,
            Node::Placeholder { .. } => return Err(Error::from(ErrorKind::NotFound).in_path(path)),
        };
    }
    if dir.is_root() {
        return Ok(dir.subvolume.id);
    }
    let error = Error::new(ErrorKind::Invalid, "not the root of a subvolume of btrfs");
    Err(error.in_path(path).with_hint("choose a subvolume"))
}
