//! Changing the owner of the blocks of a tree of extents.
//!
//! `xfs_fsr` exchanges the forks of two inodes, and the log says only that the blocks of their
//! trees have a new owner. All blocks of a fork's tree belong to its inode, so it is enough to set
//! the owners at the end of the replay, in the trees that are left.

use std::collections::HashSet;

use crate::bytes::{be16, be64};
use crate::error::{Result, unsupported};
use crate::superblock::FsBlock;
use diskfs_block::bytes::put;

use super::finish_mapping::{FORMAT, FORMAT_TREE, MODE};
use super::fork_place::ForkPlace;
use super::mapping_tree::{
    BLOCK_HEADER, COUNT, ENTRY_BYTES, LEVEL, LEVELS_MAX, write_checked as write,
};
use super::replay::Replay;

/// The offset of `di_aformat` in an inode.
const ATTRIBUTE_FORMAT: usize = 83;
/// The offset of the owner in a block of a tree.
const OWNER: usize = 56;
/// The largest number of visited blocks of all trees.
const BLOCKS_MAX: usize = 1 << 20;

impl Replay<'_> {
    /// Sets the owners of the blocks of all trees that have changed it.
    ///
    /// # Errors
    /// `Corrupt` for an invalid tree, `Unsupported` beyond the limits, `Io`.
    pub(super) fn finish_owners(&mut self) -> Result<()> {
        if !self.superblock.has_checksums() {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.owner_changes);
        let mut visited = HashSet::new();
        for inode in changes.data {
            self.set_owners(inode, FORMAT, &mut visited)?;
        }
        for inode in changes.attributes {
            self.set_owners(inode, ATTRIBUTE_FORMAT, &mut visited)?;
        }
        Ok(())
    }

    /// Sets the owners of the blocks of one tree: of the fork whose form is stored at `format`.
    fn set_owners(&mut self, number: u64, format: usize, visited: &mut HashSet<u64>) -> Result<()> {
        let byte = self.inode_byte(number);
        let byte = byte.ok_or_else(|| self.invalid("an inode item is for an impossible inode"))?;
        let inode = self.read(byte, usize::from(self.superblock.inode_bytes))?;
        let is_used = be16(&inode, MODE).is_some_and(|mode| mode != 0);
        if !is_used || inode.get(format) != Some(&FORMAT_TREE) {
            return Ok(());
        }
        let forks = ForkPlace::both_of(&inode, true);
        let (data, attributes) =
            forks.ok_or_else(|| self.invalid("an inode has an invalid fork"))?;
        let fork = if format == FORMAT { data } else { attributes };
        let end = fork.start.saturating_add(fork.len);
        let root = inode.get(fork.start..end).unwrap_or_default();
        let level = be16(root, 0).unwrap_or(0);
        if level > LEVELS_MAX {
            return Err(self.invalid("a tree has an invalid root"));
        }
        let mut pending = children(root, 2, 4, level);
        while let Some((block, level)) = pending.pop() {
            if visited.len() >= BLOCKS_MAX {
                return Err(unsupported(format!(
                    "unsupported log: more than {BLOCKS_MAX} blocks change their owner"
                )));
            }
            if visited.insert(block) {
                pending.extend(self.set_owner(block, level, number)?);
            }
        }
        Ok(())
    }

    /// Sets the owner of a block, and returns its children.
    fn set_owner(&mut self, block: u64, level: u16, inode: u64) -> Result<Vec<(u64, u16)>> {
        let byte = self.superblock.byte_of(FsBlock(block));
        let byte = byte.ok_or_else(|| self.invalid("a tree has an invalid pointer"))?;
        let mut bytes = self.read(byte, self.superblock.block_len())?;
        if !bytes.starts_with(b"BMA3") || be16(&bytes, LEVEL) != Some(level) {
            return Err(self.invalid("a tree has an invalid block"));
        }
        if be64(&bytes, OWNER) != Some(inode) {
            put(&mut bytes, OWNER, &inode.to_be_bytes());
            write(self, byte, &mut bytes)?;
        }
        Ok(children(&bytes, COUNT, BLOCK_HEADER, level))
    }
}

/// Returns the children of a node and their level; none of a leaf.
fn children(node: &[u8], count: usize, header: usize, level: u16) -> Vec<(u64, u16)> {
    let Some(below) = level.checked_sub(1) else {
        return Vec::new();
    };
    let capacity = node.len().saturating_sub(header).wrapping_div(ENTRY_BYTES);
    let count = usize::from(be16(node, count).unwrap_or(0)).min(capacity);
    let pointer = |nth: usize| {
        let entry = capacity.saturating_add(nth).saturating_mul(8);
        be64(node, header.saturating_add(entry))
    };
    let pointers = (0..count).filter_map(pointer);
    pointers.map(|block| (block, below)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_follow_all_keys_that_fit() {
        let mut node = vec![0; 4 + 3 * ENTRY_BYTES];
        node[..4].copy_from_slice(&[0, 2, 0, 2]);
        node[4 + 24..4 + 32].copy_from_slice(&9_u64.to_be_bytes());
        node[4 + 32..4 + 40].copy_from_slice(&8_u64.to_be_bytes());
        assert_eq!(children(&node, 2, 4, 2), [(9, 1), (8, 1)]);
        assert_eq!(children(&node, 2, 4, 0), []);
        // No more pointers than fit.
        node[3] = 200;
        assert_eq!(children(&node, 2, 4, 1).len(), 3);
    }
}
