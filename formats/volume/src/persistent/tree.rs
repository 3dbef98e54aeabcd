//! Looking up keys in a tree. Linux, `drivers/md/persistent-data/dm-btree.c`.

use diskfs_block::{BlockRead, Error, Result};

use super::block::Blocks;
use super::btree_node::Node;

/// Nodes above one another. The kernel splits them in halves, so a tree of all 2^64 keys has ten.
const MAX_DEPTH: usize = 16;

/// The leaf in which a key is, if it is anywhere.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) node: Node,
    /// The place in the leaf of the last key that is not above the one that was looked for.
    pub(crate) index: Option<usize>,
    /// The first key that is not in this leaf any more, where there is a next one.
    pub(crate) end: Option<u64>,
}

impl<D: BlockRead + ?Sized> Blocks<D> {
    /// The leaf of the tree at `root` in which `key` is or would be.
    pub(crate) fn find(&self, root: u64, key: u64, value_bytes: usize) -> Result<Found> {
        let (mut number, mut end) = (root, None);
        for _ in 0..MAX_DEPTH {
            let node = Node::read(self, number, value_bytes)?;
            let index = node.at_or_before(key);
            let Some(child) = index.filter(|_| !node.is_leaf) else {
                end = if node.is_leaf { end } else { node.key(0) };
                return Ok(Found { node, index, end });
            };
            end = node.key(child.saturating_add(1)).or(end);
            number = node.number(child).ok_or_else(|| {
                let reason = format!("its tree node in block {number} has an entry less");
                Error::corrupt(reason)
            })?;
        }
        Err(Error::corrupt(format!(
            "has a tree of more than {MAX_DEPTH} nodes above one another at block {root}"
        )))
    }

    /// The value of `key` in the tree at `root`.
    pub(crate) fn value(&self, root: u64, key: u64, value_bytes: usize) -> Result<Option<Vec<u8>>> {
        let Found { node, index, .. } = self.find(root, key, value_bytes)?;
        let index = index.filter(|&index| node.key(index) == Some(key));
        Ok(index
            .and_then(|index| node.value(index))
            .map(<[u8]>::to_vec))
    }

    /// The number that `key` has in the tree at `root`.
    pub(crate) fn number(&self, root: u64, key: u64) -> Result<Option<u64>> {
        let value = self.value(root, key, size_of::<u64>())?;
        Ok(value.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?))))
    }
}
