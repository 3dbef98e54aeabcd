//! The keys of items (`struct btrfs_disk_key`).

use crate::bytes::{array, le64};

/// The length of a stored key.
pub(crate) const KEY_BYTES: usize = 17;

/// The types of items.
pub(crate) mod item {
    pub(crate) const INODE_ITEM: u8 = 1;
    pub(crate) const INODE_REF: u8 = 12;
    pub(crate) const INODE_EXTREF: u8 = 13;
    pub(crate) const XATTR_ITEM: u8 = 24;
    pub(crate) const DIR_ITEM: u8 = 84;
    pub(crate) const DIR_INDEX: u8 = 96;
    pub(crate) const EXTENT_DATA: u8 = 108;
    pub(crate) const EXTENT_CSUM: u8 = 128;
    pub(crate) const ROOT_ITEM: u8 = 132;
    pub(crate) const ROOT_BACKREF: u8 = 144;
    pub(crate) const ROOT_REF: u8 = 156;
    pub(crate) const BLOCK_GROUP_ITEM: u8 = 192;
    pub(crate) const DEV_ITEM: u8 = 216;
    pub(crate) const CHUNK_ITEM: u8 = 228;
}

/// The key of an item. Trees are in the order of the fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) object_id: u64,
    pub(crate) item_type: u8,
    pub(crate) offset: u64,
}

impl Key {
    pub(crate) const fn new(object_id: u64, item_type: u8, offset: u64) -> Self {
        Self {
            object_id,
            item_type,
            offset,
        }
    }

    /// Parses the key at an offset; `None` if it is not within `bytes`.
    #[inline]
    pub(crate) fn parse(bytes: &[u8], at: usize) -> Option<Self> {
        let raw: [u8; KEY_BYTES] = array(bytes, at)?;
        Some(Self {
            object_id: le64(&raw, 0)?,
            item_type: raw[8],
            offset: le64(&raw, 9)?,
        })
    }

    /// Returns true if both keys differ at most in their offset.
    pub(crate) fn is_beside(self, other: Self) -> bool {
        (self.object_id, self.item_type) == (other.object_id, other.item_type)
    }
}
