//! The subvolumes in use, and inode numbers that say which subvolume a file is in.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use diskfs_vfs::InodeNumber;

use crate::bytes::index;
use crate::cursor::Tree;
use crate::error::{Error, ErrorKind, Result, unsupported};
use crate::root_item::RootItem;
use crate::tree_root::tree;
use crate::volume::Volume;

/// The inode of the root directory of each subvolume (`BTRFS_FIRST_FREE_OBJECTID`).
pub(crate) const ROOT_INODE: u64 = 256;

/// The largest number of subvolumes that are entered while a filesystem is open.
const MAX_SUBVOLUMES: usize = 1 << 16;

/// The number of bits of an inode number that are the inode's own.
const INODE_BITS: u32 = 47;

/// The bit of the empty directory that stands for a subvolume which is not there.
const PLACEHOLDER: u64 = 1 << INODE_BITS;

/// The number of bits below those of the subvolume.
const SUBVOLUME_SHIFT: u32 = INODE_BITS + 1;

/// A subvolume in use.
#[derive(Debug)]
pub(crate) struct Subvolume {
    pub(crate) id: u64,
    pub(crate) tree: Tree,
    /// The index in the table, which is a part of inode numbers.
    slot: u64,
}

/// A file of a subvolume.
#[derive(Debug, Clone)]
pub(crate) struct FileId {
    pub(crate) subvolume: Arc<Subvolume>,
    pub(crate) inode: u64,
}

/// A file or directory that has an inode number.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    File(FileId),
    /// The empty directory that stands for a deleted subvolume, or for one in a snapshot of its
    /// parent. It has the owner of the directory that it is in.
    Placeholder {
        dir: FileId,
    },
}

/// The subvolumes in use. The first is the root's. None is ever removed, so inode numbers are
/// stable.
#[derive(Debug, Default)]
pub(crate) struct Subvolumes {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    subvolumes: Vec<Arc<Subvolume>>,
    slots: HashMap<u64, usize>,
}

impl Subvolumes {
    /// Returns the subvolume with this ID.
    ///
    /// # Errors
    /// `NotFound` if there is none, or if it is deleted.
    pub(crate) fn open(&self, volume: &Volume, id: u64) -> Result<Arc<Subvolume>> {
        if let Some(open) = self.opened(id) {
            return Ok(open);
        }
        let item = root_item(volume, id)?;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened it meanwhile.
        if let Some(open) = table.get(id) {
            return Ok(open);
        }
        if table.subvolumes.len() >= MAX_SUBVOLUMES {
            return Err(unsupported(
                "more than 65536 subvolumes of btrfs are in use",
            ));
        }
        let slot = table.subvolumes.len();
        let subvolume = Arc::new(Subvolume {
            id,
            tree: volume.tree(item.root),
            slot: crate::bytes::len_u64(slot),
        });
        table.slots.insert(id, slot);
        table.subvolumes.push(Arc::clone(&subvolume));
        Ok(subvolume)
    }

    fn opened(&self, id: u64) -> Option<Arc<Subvolume>> {
        self.table
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
    }

    /// Returns what an inode number stands for.
    pub(crate) fn node(&self, number: InodeNumber) -> Result<Node> {
        let slot = index(number.0.wrapping_shr(SUBVOLUME_SHIFT));
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let subvolume = table.subvolumes.get(slot).cloned();
        let subvolume = subvolume.ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        let file = FileId {
            subvolume,
            inode: number.0 & (PLACEHOLDER - 1),
        };
        Ok(if number.0 & PLACEHOLDER == 0 {
            Node::File(file)
        } else {
            Node::Placeholder { dir: file }
        })
    }
}

impl Table {
    fn get(&self, id: u64) -> Option<Arc<Subvolume>> {
        let slot = self.slots.get(&id)?;
        self.subvolumes.get(*slot).cloned()
    }
}

/// Returns the root of a subvolume that is not deleted.
pub(crate) fn root_item(volume: &Volume, id: u64) -> Result<RootItem> {
    let found = if tree::is_subvolume(id) {
        volume.root_item(id)?
    } else {
        None
    };
    found.filter(|item| item.refs > 0).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("no subvolume of btrfs has the ID {id}"),
        )
    })
}

impl FileId {
    /// Returns the inode number of the file.
    pub(crate) fn number(&self) -> Result<InodeNumber> {
        self.number_with(0)
    }

    /// Returns the inode number of the placeholder in this directory.
    pub(crate) fn placeholder_number(&self) -> Result<InodeNumber> {
        self.number_with(PLACEHOLDER)
    }

    fn number_with(&self, bit: u64) -> Result<InodeNumber> {
        if self.inode >= PLACEHOLDER {
            let reason = format!(
                "inode {} of btrfs is not supported: it is too large",
                self.inode
            );
            return Err(unsupported(reason));
        }
        let slot = self.subvolume.slot.wrapping_shl(SUBVOLUME_SHIFT);
        Ok(InodeNumber(slot | bit | self.inode))
    }

    /// Returns true for the root directory of its subvolume.
    pub(crate) fn is_root(&self) -> bool {
        self.inode == ROOT_INODE
    }
}
