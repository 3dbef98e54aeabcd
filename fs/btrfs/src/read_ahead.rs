//! Reads of tree blocks ahead of their use.

use diskfs_vfs::InodeNumber;

use crate::error::Result;
use crate::key::{Key, item};
use crate::subvolumes::{Node, Subvolumes};
use crate::tree_block::Expected;
use crate::volume::Volume;

/// Reads the leaves that have these inodes. Errors are left to the real reads.
pub(crate) fn inodes(volume: &Volume, subvolumes: &Subvolumes, inodes: &[InodeNumber]) {
    let mut leaves = Vec::new();
    for number in inodes {
        if let Ok(Node::File(file)) = subvolumes.node(*number) {
            let key = Key::new(file.inode, item::INODE_ITEM, 0);
            match missing_leaf(volume, &file.subvolume.tree.root, key) {
                Ok(Some(leaf)) => leaves.push(leaf),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
    volume.blocks.prefetch(leaves);
}

/// Returns the pointer to the leaf for a key, unless the leaf is cached.
fn missing_leaf(
    volume: &Volume,
    root: &crate::tree_root::TreeRoot,
    key: Key,
) -> Result<Option<Expected>> {
    let mut block = volume.blocks.root(root)?;
    while !block.is_leaf() {
        let nth = block.count_up_to(key).saturating_sub(1);
        let expected = block.expected(nth, root.owner)?;
        if block.header.level == 1 {
            let is_cached = volume.blocks.has(expected.logical);
            return Ok((!is_cached).then_some(expected));
        }
        block = volume.blocks.get(&expected)?;
    }
    Ok(None)
}
