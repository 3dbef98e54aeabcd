//! The root of a tree: its owner and its topmost block.

use crate::logical::Logical;

/// The number of levels that a tree can have (`BTRFS_MAX_LEVEL`).
pub(crate) const MAX_LEVELS: u8 = 8;

/// The object IDs of the trees that are not subvolumes, and of the first subvolume.
pub(crate) mod tree {
    pub(crate) const ROOT: u64 = 1;
    pub(crate) const EXTENT: u64 = 2;
    pub(crate) const CHUNK: u64 = 3;
    /// The subvolume at the top, which contains all others.
    pub(crate) const FS: u64 = 5;
    pub(crate) const CSUM: u64 = 7;
    pub(crate) const FREE_SPACE: u64 = 10;
    pub(crate) const BLOCK_GROUP: u64 = 11;
    pub(crate) const LOG: u64 = 0_u64.wrapping_sub(6);
    pub(crate) const RELOC: u64 = 0_u64.wrapping_sub(8);
    pub(crate) const FIRST_SUBVOLUME: u64 = 256;
    /// The last object ID that a file or a subvolume can have (`BTRFS_LAST_FREE_OBJECTID`).
    pub(crate) const LAST_FREE: u64 = 0_u64.wrapping_sub(256);

    /// Returns true for the owner of a tree with files (`is_fstree`).
    pub(crate) const fn is_subvolume(owner: u64) -> bool {
        // The upper 16 bits are the level of a quota group.
        owner == FS || (FIRST_SUBVOLUME <= owner && owner <= LAST_FREE && owner >> 48 == 0)
    }
}

/// The root of a tree: what its topmost block must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeRoot {
    /// The object ID of the tree.
    pub(crate) owner: u64,
    pub(crate) logical: Logical,
    pub(crate) level: u8,
    pub(crate) generation: u64,
}
