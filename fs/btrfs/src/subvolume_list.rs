//! The list of subvolumes, and their paths.

use diskfs_vfs::Timestamp;

use crate::bytes::uuid_text;
use crate::cursor::Tree;
use crate::directory;
use crate::error::{Error, ErrorKind, Result, unsupported};
use crate::key::{Key, item};
use crate::subvolumes::{FileId, Subvolumes, root_item};
use crate::tree_root::tree;
use crate::volume::Volume;

/// The largest list of subvolumes.
const MAX_SUBVOLUMES: usize = 1 << 16;

/// The depth up to which subvolumes may contain each other.
const MAX_DEPTH: usize = 256;

/// A subvolume or snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubvolumeInfo {
    /// The ID: 5 for the subvolume at the top.
    pub id: u64,
    /// The ID of the subvolume that contains it; `None` for the one at the top.
    pub parent_id: Option<u64>,
    /// The path of its root directory below the subvolume at the top.
    pub path: Vec<u8>,
    /// The transaction that changed it last.
    pub generation: u64,
    /// True if it can't be written to.
    pub is_read_only: bool,
    /// The UUID, if it has one.
    pub uuid: Option<String>,
    /// The UUID of the subvolume of which it is a snapshot.
    pub parent_uuid: Option<String>,
    /// The UUID of the subvolume of another filesystem from which it was received.
    pub received_uuid: Option<String>,
    /// The time of its creation.
    pub created: Timestamp,
}

/// Returns all subvolumes that have a path, in the order of their IDs.
pub(crate) fn list(volume: &Volume, subvolumes: &Subvolumes) -> Result<Vec<SubvolumeInfo>> {
    let mut all = vec![info(volume, subvolumes, tree::FS)?];
    let mut next = Some(tree::FIRST_SUBVOLUME);
    while let Some(first) = next {
        let Some(id) = id_from(volume, &volume.root_tree, first)? else {
            break;
        };
        if all.len() >= MAX_SUBVOLUMES {
            return Err(unsupported("more than 65536 subvolumes of btrfs"));
        }
        match info(volume, subvolumes, id) {
            Ok(info) => all.push(info),
            // It is deleted, or its directory is.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        next = id.checked_add(1);
    }
    Ok(all)
}

/// Returns the first ID from `first` on that has a root and can be that of a subvolume.
fn id_from(volume: &Volume, root_tree: &Tree, first: u64) -> Result<Option<u64>> {
    let mut cursor = volume.at_or_after(root_tree, Key::new(first, item::ROOT_ITEM, 0))?;
    while let Some(found) = cursor.item() {
        let id = found.key.object_id;
        if id > tree::LAST_FREE {
            break;
        }
        if found.key.item_type == item::ROOT_ITEM && tree::is_subvolume(id) {
            return Ok(Some(id));
        }
        cursor.advance()?;
    }
    Ok(None)
}

fn info(volume: &Volume, subvolumes: &Subvolumes, id: u64) -> Result<SubvolumeInfo> {
    let root = root_item(volume, id)?;
    let uuid = |bytes: [u8; 16]| (bytes != [0; 16]).then(|| uuid_text(bytes));
    let parent = if id == tree::FS {
        None
    } else {
        directory::place_of(volume, id)?
    };
    Ok(SubvolumeInfo {
        id,
        parent_id: parent.map(|(parent, _)| parent),
        path: path(volume, subvolumes, tree::FS, id)?,
        generation: root.root.generation,
        is_read_only: root.is_read_only,
        uuid: uuid(root.uuid),
        parent_uuid: uuid(root.parent_uuid),
        received_uuid: uuid(root.received_uuid),
        created: root.created,
    })
}

/// Returns the path of the root directory of a subvolume below that of `top`.
pub(crate) fn path(volume: &Volume, subvolumes: &Subvolumes, top: u64, id: u64) -> Result<Vec<u8>> {
    root_item(volume, id)?;
    let mut names = Vec::new();
    let mut below = id;
    for _ in 0..MAX_DEPTH {
        if below == top {
            names.reverse();
            return Ok(names.join(&b'/'));
        }
        let Some((above, place)) = directory::place_of(volume, below)? else {
            return Err(outside(id));
        };
        names.push(place.name);
        let dir = FileId {
            subvolume: subvolumes.open(volume, above)?,
            inode: place.dir,
        };
        names.extend(directory::path_within(volume, &dir)?.into_iter().rev());
        below = above;
    }
    let reason = format!("subvolume {id} of btrfs contains itself");
    Err(Error::new(ErrorKind::Corrupt, reason))
}

fn outside(id: u64) -> Error {
    let reason = format!("subvolume {id} of btrfs is not below the root of the tree");
    Error::new(ErrorKind::NotFound, reason)
        .with_hint("open the filesystem at its top (subvolume 5)")
}
