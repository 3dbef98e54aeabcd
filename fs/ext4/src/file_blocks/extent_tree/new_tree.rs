//! Extent trees of new files whose extents are all known.

use crate::block::FsBlock;
use crate::bytes::len_u64;
use crate::checksum::ChecksumSeed;
use crate::run::Run;

use super::node::{self, ENTRY_BYTES, ROOT_ENTRIES, RawEntry};

/// The extent tree of a new file.
#[derive(Debug)]
pub(crate) struct NewTree {
    /// The root, `i_block`.
    pub(crate) root: [u8; 60],
    /// The other nodes with their contents.
    pub(crate) nodes: Vec<(FsBlock, Vec<u8>)>,
}

/// Returns the number of nodes of a tree with this many extents, besides the root.
pub(crate) fn tree_blocks_for(extents: u64, block_bytes: usize) -> u64 {
    let per_node = len_u64(entries_per_node(block_bytes));
    let mut nodes = 0u64;
    let mut entries = extents;
    while entries > len_u64(ROOT_ENTRIES) {
        entries = entries.div_ceil(per_node);
        nodes = nodes.saturating_add(entries);
    }
    nodes
}

/// Returns how many entries a node in a block has; at least 84.
fn entries_per_node(block_bytes: usize) -> usize {
    block_bytes
        .wrapping_div(ENTRY_BYTES)
        .saturating_sub(1)
        .max(2)
}

impl NewTree {
    /// Builds the tree of these extents, none of which is longer than an extent may be, with its
    /// nodes in `blocks`. Returns `None` if there are too few of these.
    pub(crate) fn new(
        seed: Option<ChecksumSeed>,
        block_bytes: usize,
        extents: &[Run],
        blocks: &[FsBlock],
    ) -> Option<Self> {
        let mut blocks = blocks.iter();
        let mut nodes = Vec::new();
        let mut depth = 0u16;
        let mut entries: Vec<RawEntry> = extents.iter().map(RawEntry::extent).collect();
        while entries.len() > ROOT_ENTRIES {
            let mut parents = Vec::new();
            for part in entries.chunks(entries_per_node(block_bytes)) {
                let block = *blocks.next()?;
                let mut bytes = vec![0; block_bytes];
                node::fill(&mut bytes, depth, part);
                node::update_checksum(seed, &mut bytes);
                let key = part.first().map_or(0, |entry| entry.key.get());
                parents.push(RawEntry::index(key, block));
                nodes.push((block, bytes));
            }
            entries = parents;
            depth = depth.saturating_add(1);
        }
        let mut root = [0; 60];
        node::fill(&mut root, depth, &entries);
        Some(Self { root, nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::FileBlock;

    #[test]
    fn nodes_are_counted_before() {
        for (count, nodes) in [(1, 0), (4, 0), (5, 1), (84, 1), (85, 2), (336, 4), (337, 6)] {
            assert_eq!(tree_blocks_for(count, 1024), nodes);
            let runs: Vec<_> = (0..u32::try_from(count).unwrap())
                .map(|nth| Run {
                    file_block: FileBlock(nth),
                    fs_block: FsBlock(u64::from(nth) * 2),
                    len_blocks: 1,
                    written: true,
                })
                .collect();
            let blocks: Vec<_> = (0..nodes).map(FsBlock).collect();
            let tree = NewTree::new(None, 1024, &runs, &blocks).unwrap();
            assert_eq!(tree.nodes.len() as u64, nodes);
        }
    }
}
