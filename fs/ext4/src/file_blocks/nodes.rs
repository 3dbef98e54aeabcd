//! The blocks of a file's tree or map.

use crate::block::{FileBlock, FsBlock};
use crate::error::{InInode, Result};
use crate::handle::Handle;
use crate::hashing::HashSet;
use crate::inode::{Inode, InodeFlags};
use crate::metadata_cache::Key;
use crate::volume::Volume;

use super::{block_map, extent_tree};

/// The maximum number of blocks of a written extent.
pub(crate) const LEN_MAX: u32 = 1 << 15;

/// Updates the checksums of the nodes of an extent tree that belongs to inode `new` from now on,
/// and belonged to `old`.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn seal_nodes(handle: &Handle<'_>, old: &Inode, new: &Inode) -> Result<()> {
    for block in nodes(handle.volume(), old)? {
        let key = Key::extent_block(new.number, block);
        handle.change(key, |bytes| {
            extent_tree::node::update_checksum(new.checksum_seed, bytes);
        })?;
    }
    Ok(())
}

/// Returns the blocks of an inode's tree or map, besides those of its contents.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn nodes(volume: &Volume, inode: &Inode) -> Result<HashSet<FsBlock>> {
    let mut found = HashSet::default();
    let mut at = 0;
    while let Ok(block) = u32::try_from(at) {
        let nodes_at = if inode.has(InodeFlags::EXTENTS) {
            extent_tree::nodes_at
        } else {
            block_map::nodes_at
        };
        let (nodes, end) = nodes_at(volume, inode, FileBlock(block)).in_inode(inode.number)?;
        found.extend(nodes);
        at = end;
    }
    Ok(found)
}
