//! Block maps of new files whose blocks are all known.

use super::DIRECT;
use crate::block::FsBlock;
use crate::bytes::{len_u64, put};

/// The block map of a new file without holes.
#[derive(Debug, Default)]
pub(crate) struct NewMap {
    /// The data blocks, in order.
    pub(crate) data: Vec<FsBlock>,
    /// The blocks of the map with their contents.
    pub(crate) nodes: Vec<(FsBlock, Vec<u8>)>,
    /// The numbers in `i_block`.
    root: Vec<u32>,
}

/// Returns the number of blocks of the map of a file with `data_blocks` blocks, where a block of
/// the map has room for `per_block` numbers.
pub(crate) fn map_blocks_for(data_blocks: u64, per_block: u64) -> u64 {
    let per_double = per_block.saturating_mul(per_block);
    let indirect = data_blocks.saturating_sub(DIRECT);
    let double = indirect.saturating_sub(per_block);
    let triple = double.saturating_sub(per_double);
    let in_double = double.min(per_double).div_ceil(per_block.max(1));
    let in_triple = triple
        .div_ceil(per_block.max(1))
        .saturating_add(triple.div_ceil(per_double.max(1)));
    let roots = [indirect, double, triple]
        .into_iter()
        .filter(|&blocks| blocks > 0);
    len_u64(roots.count())
        .saturating_add(in_double)
        .saturating_add(in_triple)
}

impl NewMap {
    /// Maps a file of `data_blocks` blocks. `blocks` are the blocks of the file and of its map, as
    /// they are used along the file: each block of the map is before the blocks that it maps.
    /// Returns `None` if there are too few.
    pub(crate) fn new(
        block_bytes: usize,
        data_blocks: u64,
        blocks: impl Iterator<Item = FsBlock>,
    ) -> Option<Self> {
        let mut map = Self::default();
        let mut builder = Builder {
            block_bytes,
            left: data_blocks,
            blocks,
        };
        for level in std::iter::repeat_n(0, 12).chain(1..=3) {
            if builder.left > 0 {
                let number = builder.block(&mut map, level)?;
                map.root.push(number);
            }
        }
        (builder.left == 0).then_some(map)
    }

    /// Returns the contents of `i_block`.
    pub(crate) fn root(&self) -> [u8; 60] {
        let mut bytes = [0; 60];
        put_numbers(&mut bytes, &self.root);
        bytes
    }
}

struct Builder<I> {
    block_bytes: usize,
    /// The number of data blocks that are not mapped yet.
    left: u64,
    blocks: I,
}

impl<I: Iterator<Item = FsBlock>> Builder<I> {
    /// Takes the next block, and maps the blocks below it: `level` is 0 for a data block, and at
    /// most 3. Returns its number.
    fn block(&mut self, map: &mut NewMap, level: u32) -> Option<u32> {
        let block = self.blocks.next()?;
        let number = u32::try_from(block.0).ok()?;
        let Some(below) = level.checked_sub(1) else {
            self.left = self.left.saturating_sub(1);
            map.data.push(block);
            return Some(number);
        };
        let mut numbers = Vec::new();
        while self.left > 0 && numbers.len() < self.block_bytes.wrapping_div(4) {
            numbers.push(self.block(map, below)?);
        }
        let mut bytes = vec![0; self.block_bytes];
        put_numbers(&mut bytes, &numbers);
        map.nodes.push((block, bytes));
        Some(number)
    }
}

fn put_numbers(bytes: &mut [u8], numbers: &[u32]) {
    for (nth, number) in numbers.iter().enumerate() {
        put(bytes, nth.saturating_mul(4), &number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data_blocks: u64) -> NewMap {
        NewMap::new(1024, data_blocks, (100..).map(FsBlock)).unwrap()
    }

    #[test]
    fn blocks_of_the_map_come_before_their_data() {
        let small = map(12);
        assert!(small.nodes.is_empty());
        let indirect = map(13);
        assert_eq!(indirect.data[12], FsBlock(113));
        assert_eq!(indirect.nodes[0].0, FsBlock(112));
        assert_eq!(indirect.nodes[0].1[..8], [113, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(indirect.root()[44..52], [111, 0, 0, 0, 112, 0, 0, 0]);
    }

    #[test]
    fn the_number_of_blocks_is_known_before() {
        for blocks in [1, 12, 13, 268, 269, 524, 525, 65804, 65805, 66061, 140_000] {
            let built = map(blocks);
            let expected = map_blocks_for(blocks, 256);
            assert_eq!(built.nodes.len() as u64, expected, "{blocks}");
            assert_eq!(built.data.len() as u64, blocks);
        }
    }
}
