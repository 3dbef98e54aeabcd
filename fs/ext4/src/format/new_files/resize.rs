//! The resize inode: a block map that owns the blocks into which the descriptor table can grow.
//!
//! A double indirect block refers to the reserved blocks after the descriptor table. Each of them,
//! as an indirect block, refers to the blocks at the same place after each backup of the table.

use crate::block::{BlockSize, FsBlock};
use crate::bytes::{index, put};
use crate::group_descriptor::{has_superblock, table_blocks_in_group};
use crate::superblock::{Superblock, superblock_block};

use super::NewBlock;

/// The place of the double indirect block's number in `i_block`.
const DOUBLE_INDIRECT: usize = 13;
const NUMBER_BYTES: usize = 4;

/// The blocks of the resize inode.
pub(super) struct ResizeBlocks {
    /// The blocks that are not zero.
    pub(super) blocks: Vec<NewBlock>,
    /// The number of all blocks that the inode owns.
    pub(super) count: u64,
}

/// Returns the first reserved block.
pub(super) fn first_reserved(superblock: &Superblock) -> u64 {
    let table = table_blocks_in_group(superblock, 0);
    superblock_block(superblock.block_size)
        .after(1)
        .after(table)
        .0
}

/// Returns the size of the inode: all that a double indirect block can map.
pub(super) fn size_bytes(size: BlockSize) -> u64 {
    const DIRECT: u64 = 12;
    let per_block = u64::from(size.bytes()).wrapping_div(4);
    let blocks = per_block.saturating_mul(per_block);
    size.bytes_of(blocks.saturating_add(per_block).saturating_add(DIRECT))
}

/// Returns `i_block` with the double indirect block `root`.
pub(super) fn i_block(root: FsBlock) -> [u8; 60] {
    let mut bytes = [0; 60];
    put_number(&mut bytes, DOUBLE_INDIRECT, root.0);
    bytes
}

/// Returns the contents of the map's blocks. All blocks are below 2^32 with this feature.
pub(super) fn blocks(superblock: &Superblock, root: FsBlock) -> ResizeBlocks {
    let block_bytes = superblock.block_size.len();
    let numbers = block_bytes.wrapping_div(NUMBER_BYTES);
    let reserved = u64::from(superblock.reserved_gdt_blocks);
    let table_blocks = table_blocks_in_group(superblock, 0);
    let backups: Vec<u64> = (1..superblock.groups_count)
        .filter(|&group| has_superblock(superblock, group))
        .map(|group| u64::from(group).saturating_mul(u64::from(superblock.blocks_per_group)))
        .take(numbers)
        .collect();
    let mut double = vec![0; block_bytes];
    let mut blocks = Vec::new();
    for nth in 0..reserved {
        let block = first_reserved(superblock).saturating_add(nth);
        // The place is that which the block has in the whole descriptor table.
        let place = index(table_blocks.saturating_add(nth));
        put_number(&mut double, place.checked_rem(numbers).unwrap_or(0), block);
        let mut indirect = vec![0; block_bytes];
        for (at, distance) in backups.iter().enumerate() {
            put_number(&mut indirect, at, block.saturating_add(*distance));
        }
        blocks.push((FsBlock(block), indirect));
    }
    blocks.push((root, double));
    let per_reserved = u64::try_from(backups.len()).unwrap_or(0).saturating_add(1);
    ResizeBlocks {
        blocks,
        count: reserved.saturating_mul(per_reserved).saturating_add(1),
    }
}

fn put_number(bytes: &mut [u8], place: usize, block: u64) {
    let number = u32::try_from(block).unwrap_or(0);
    put(
        bytes,
        place.saturating_mul(NUMBER_BYTES),
        &number.to_le_bytes(),
    );
}
