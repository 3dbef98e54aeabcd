//! A block of a tree: a leaf with items, or a node with pointers to blocks of the next level.

mod header;
mod leaf;
mod node;

use std::cmp::Ordering;

pub(crate) use self::header::{Header, RawHeader};
use crate::checksum::ChecksumType;
use crate::error::{Error, Result, corrupt};
use crate::key::Key;
use crate::logical::Logical;
use crate::tree_root::tree;

/// The length of the header, which items and pointers follow.
pub(crate) const HEADER_BYTES: usize = size_of::<RawHeader>();

/// The properties that all tree blocks of a filesystem have in common.
#[derive(Debug, Clone)]
pub(crate) struct BlockFormat {
    pub(crate) checksum: ChecksumType,
    pub(crate) node_bytes: u32,
    /// The UUIDs that a header may have: the filesystem's, and those of its seeds.
    pub(crate) fsids: Vec<[u8; 16]>,
}

/// The properties that a pointer states of the block that it leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) logical: Logical,
    pub(crate) level: u8,
    pub(crate) generation: u64,
    /// The tree that the block is read for.
    pub(crate) owner: u64,
    /// The first key of the block; `None` for the root of a tree, which may be empty.
    pub(crate) first_key: Option<Key>,
}

/// A pointer of a node to a block of the next level (`struct btrfs_key_ptr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPointer {
    pub(crate) key: Key,
    pub(crate) logical: Logical,
    pub(crate) generation: u64,
}

/// A tree block whose checksum, header, keys and bounds are right.
#[derive(Debug)]
pub(crate) struct TreeBlock {
    bytes: Box<[u8]>,
    pub(crate) header: Header,
    /// The byte of the device that the block was read from.
    pub(crate) place: u64,
}

impl TreeBlock {
    /// Checks a block that was read from byte `place` of a device for address `logical`.
    pub(crate) fn parse(
        bytes: Box<[u8]>,
        logical: Logical,
        place: u64,
        format: &BlockFormat,
    ) -> Result<Self> {
        if !format.checksum.matches_block(&bytes) {
            return Err(invalid(logical, place, "wrong checksum"));
        }
        let header = Header::parse(&bytes, logical, place, format)?;
        let block = Self {
            bytes,
            header,
            place,
        };
        if block.is_leaf() {
            block.check_items()?;
        } else {
            block.check_pointers()?;
        }
        Ok(block)
    }

    /// Fails if the block is not the one that a pointer leads to.
    pub(crate) fn check(&self, expected: &Expected) -> Result<()> {
        let Header {
            level, generation, ..
        } = self.header;
        if level != expected.level {
            let reason = format!("level {level} instead of {}", expected.level);
            return Err(self.invalid(&reason));
        }
        if generation != expected.generation {
            let reason = format!("generation {generation} instead of {}", expected.generation);
            return Err(self.invalid(&reason));
        }
        self.check_owner(expected.owner)?;
        if let Some(first) = expected.first_key
            && self.key(0) != Some(first)
        {
            return Err(self.invalid("its first key differs from its parent's"));
        }
        Ok(())
    }

    /// Fails if the block cannot belong to a tree. Subvolumes share blocks with their snapshots.
    fn check_owner(&self, expected: u64) -> Result<()> {
        let owner = self.header.owner;
        let may_be = match expected {
            tree::LOG | tree::RELOC => true,
            subvolume if tree::is_subvolume(subvolume) => {
                tree::is_subvolume(owner) || owner == tree::RELOC
            }
            _ => owner == expected,
        };
        if may_be {
            return Ok(());
        }
        Err(self.invalid(&format!("owner {owner} instead of {expected}")))
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.header.level == 0
    }

    /// Returns the number of items or pointers.
    pub(crate) fn len(&self) -> usize {
        self.header.items
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the key of an item or a pointer; `None` if there are fewer.
    #[inline]
    pub(crate) fn key(&self, nth: usize) -> Option<Key> {
        if nth >= self.header.items {
            return None;
        }
        let entry_bytes = if self.is_leaf() {
            leaf::ITEM_BYTES
        } else {
            node::POINTER_BYTES
        };
        let at = nth.checked_mul(entry_bytes)?.checked_add(HEADER_BYTES)?;
        Key::parse(&self.bytes, at)
    }

    /// Returns the number of keys that are at most `key`.
    pub(crate) fn count_up_to(&self, key: Key) -> usize {
        let (mut low, mut high) = (0, self.header.items);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle).map(|found| found.cmp(&key)) {
                Some(Ordering::Less | Ordering::Equal) => low = middle.saturating_add(1),
                _ => high = middle,
            }
        }
        low
    }

    /// Returns the error for a block that contradicts its specification.
    pub(crate) fn invalid(&self, reason: &str) -> Error {
        invalid(self.header.logical, self.place, reason)
    }

    /// Fails unless keys are in ascending order.
    fn check_order(&self, previous: Option<Key>, key: Key) -> Result<()> {
        if previous.is_some_and(|previous| previous >= key) {
            return Err(self.invalid("its keys are not in ascending order"));
        }
        Ok(())
    }
}

fn invalid(logical: Logical, place: u64, reason: &str) -> Error {
    corrupt(
        format!("invalid tree block of btrfs at logical {logical}: {reason}"),
        place,
    )
}
