//! Look-ups in a tree. Linux, `drivers/md/persistent-data/dm-btree.c`.

use diskfs_block::{BlockRead, Error, Result};

use super::block::Blocks;
use super::btree_node::Node;

/// The largest depth of a tree. The kernel splits nodes in halves, so a tree of all 2^64 keys has a
/// depth of ten.
const MAX_DEPTH: usize = 16;

/// The leaf for a key.
#[derive(Debug, Clone)]
pub(crate) struct FoundLeaf {
    pub(crate) node: Node,
    /// The index in the leaf of the last key that is at most the requested one.
    pub(crate) index: Option<usize>,
    /// The first key after this leaf, if there is another leaf.
    pub(crate) end: Option<u64>,
}

impl<D: BlockRead + ?Sized> Blocks<D> {
    /// Finds the leaf of the tree at `root` in which `key` is or would be.
    pub(crate) fn find(&self, root: u64, key: u64, value_bytes: usize) -> Result<FoundLeaf> {
        let (mut number, mut end) = (root, None);
        for _ in 0..MAX_DEPTH {
            let node = Node::read(self, number, value_bytes)?;
            let index = node.at_or_before(key);
            let Some(child) = index.filter(|_| !node.is_leaf) else {
                end = if node.is_leaf { end } else { node.key(0) };
                return Ok(FoundLeaf { node, index, end });
            };
            end = node.key(child.saturating_add(1)).or(end);
            number = node.number(child).ok_or_else(|| {
                let reason = format!("has a tree node in block {number} with a missing entry");
                Error::corrupt(reason)
            })?;
        }
        Err(Error::corrupt(format!(
            "has a tree at block {root} that is too deep: more than {MAX_DEPTH} levels"
        )))
    }

    /// Returns the value of `key` in the tree at `root`.
    pub(crate) fn value(&self, root: u64, key: u64, value_bytes: usize) -> Result<Option<Vec<u8>>> {
        let FoundLeaf { node, index, .. } = self.find(root, key, value_bytes)?;
        let index = index.filter(|&index| node.key(index) == Some(key));
        Ok(index
            .and_then(|index| node.value(index))
            .map(<[u8]>::to_vec))
    }

    /// Returns the value of `key` in the tree at `root` as a number.
    pub(crate) fn number(&self, root: u64, key: u64) -> Result<Option<u64>> {
        let value = self.value(root, key, size_of::<u64>())?;
        Ok(value.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?))))
    }
}
