//! A file with its inode.

use crate::error::{Error, ErrorKind, Result};
use crate::inode_item::InodeItem;
use crate::key::{Key, item};
use crate::subvolumes::FileId;
use crate::volume::Volume;

/// A file with its inode.
#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) id: FileId,
    pub(crate) item: InodeItem,
}

impl Inode {
    /// Reads the inode of a file.
    pub(crate) fn read(volume: &Volume, id: FileId) -> Result<Self> {
        let key = Key::new(id.inode, item::INODE_ITEM, 0);
        let found = volume.find(&id.subvolume.tree, key)?;
        let missing = || {
            let Key { object_id, .. } = key;
            let subvolume = id.subvolume.id;
            let reason = format!("no inode {object_id} in subvolume {subvolume} of btrfs");
            Error::new(ErrorKind::NotFound, reason)
        };
        let item = InodeItem::parse(&found.ok_or_else(missing)?)?;
        Ok(Self { id, item })
    }
}
