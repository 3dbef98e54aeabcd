//! Nodes of trees, `btree_node`. Linux, `drivers/md/persistent-data/dm-btree-internal.h`.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::block::{BLOCK_BYTES, BlockKind, Blocks};

/// The kind of tree nodes; its checksum constant is `BTREE_CSUM_XOR`.
const KIND: BlockKind = BlockKind {
    name: "tree node",
    xor: 121_107,
    number_at: 8,
};

/// The flags `INTERNAL_NODE` and `LEAF_NODE`.
const INTERNAL: u32 = 1;
const LEAF: u32 = 2;

const KEY_BYTES: usize = 8;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    csum: U32,
    flags: U32,
    blocknr: U64,
    nr_entries: U32,
    max_entries: U32,
    value_size: U32,
    padding: U32,
}

const HEADER_BYTES: usize = size_of::<RawHeader>();
const _: () = assert!(HEADER_BYTES == 32);

/// A node with ordered keys, and a value for each.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    block: Arc<Vec<u8>>,
    pub(super) is_leaf: bool,
    entries: usize,
    values_at: usize,
    value_bytes: usize,
}

impl Node {
    /// Reads the node in that block. Values of leaves have `value_bytes` bytes.
    pub(super) fn read<D: BlockRead + ?Sized>(
        blocks: &Blocks<D>,
        number: u64,
        value_bytes: usize,
    ) -> Result<Self> {
        let block = blocks.get(number, KIND)?;
        let wrong =
            |what: &str| Error::corrupt(format!("has a tree node in block {number} that {what}"));
        let header = RawHeader::ref_from_prefix(&block);
        let (raw, _) = header.map_err(|_| wrong("is truncated"))?;
        let is_leaf = match raw.flags.get() {
            INTERNAL => false,
            LEAF => true,
            _ => return Err(wrong("is neither internal nor a leaf")),
        };
        // The values of an internal node are block numbers.
        let expected = if is_leaf {
            value_bytes
        } else {
            size_of::<u64>()
        };
        let [entries, max, value] = [raw.nr_entries, raw.max_entries, raw.value_size]
            .map(|number| usize::try_from(number.get()).unwrap_or(usize::MAX));
        let room = max
            .saturating_mul(KEY_BYTES.saturating_add(value))
            .saturating_add(HEADER_BYTES);
        if value != expected || entries > max || room > BLOCK_BYTES {
            return Err(wrong("has entries that do not fit"));
        }
        let node = Self {
            block: Arc::clone(&block),
            is_leaf,
            entries,
            values_at: max.saturating_mul(KEY_BYTES).saturating_add(HEADER_BYTES),
            value_bytes: value,
        };
        Ok(node)
    }

    pub(crate) fn key(&self, index: usize) -> Option<u64> {
        let at = index.checked_mul(KEY_BYTES)?.checked_add(HEADER_BYTES)?;
        let bytes = self.block.get(at..).filter(|_| index < self.entries)?;
        bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    pub(crate) fn value(&self, index: usize) -> Option<&[u8]> {
        let at = index.checked_mul(self.value_bytes)?;
        let at = at.checked_add(self.values_at)?;
        let end = at.checked_add(self.value_bytes)?;
        self.block.get(at..end).filter(|_| index < self.entries)
    }

    /// Returns a value as a number.
    pub(crate) fn number(&self, index: usize) -> Option<u64> {
        let bytes = self.value(index)?;
        bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Returns the index of the last key that is at most `key`.
    pub(super) fn at_or_before(&self, key: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle)? <= key {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }
}
