//! Block maps: the mapping of ext2 and ext3 files, and of ext4 files without an extent tree.
//!
//! `i_block` contains twelve block numbers, then the number of a block of block numbers (indirect),
//! of a block of those (double indirect), and one more level (triple indirect). A number of 0
//! stands for a hole of the size that it would map.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Direct/Indirect
//! Block Addressing".

mod edit;
mod new_map;

use std::sync::Arc;

use crate::block::{FileBlock, FsBlock};
use crate::bytes::{index, le32};
use crate::error::{Result, Structure};
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::run::Run;
use crate::volume::Volume;

use super::WalkStep;

pub(super) use edit::{
    fits_in_one_step, leaf_end, map, mapping_at, nodes_at, reach_of, relocate_step, remove_last,
};
pub(crate) use new_map::{NewMap, map_blocks_for};

/// The number of direct block numbers in `i_block`.
const DIRECT: u64 = 12;
/// The size of a block number in bytes.
const NUMBER_BYTES: usize = 4;

/// A walk along the blocks of an inode.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    /// The next file block to look up.
    next: u64,
    /// The end of the file or of the search, as a file block.
    end: u64,
    /// The block that the last step read numbers from, and the file blocks that it maps: the next
    /// step begins there.
    leaf: Option<Leaf>,
}

#[derive(Debug)]
struct Leaf {
    numbers: Arc<[u8]>,
    block: FsBlock,
    first: u64,
}

/// The mapping of a file block.
enum LeafLookup {
    /// A hole of this many blocks from here on.
    Hole { len_blocks: u64 },
    /// Block numbers in this leaf.
    Leaf(Leaf),
}

impl<'a> Walk<'a> {
    pub(super) fn new(volume: &'a Volume, inode: &'a Inode, from: FileBlock, until: u64) -> Self {
        // Blocks after the file's end do not belong to its contents.
        let end = volume.superblock.block_size.blocks_for(inode.size_bytes);
        Self::up_to(volume, inode, from, end.min(until))
    }

    /// Starts a walk that ends at `end`, wherever the file ends.
    fn up_to(volume: &'a Volume, inode: &'a Inode, from: FileBlock, end: u64) -> Self {
        Self {
            volume,
            inode,
            next: u64::from(from.0),
            end: end.min(1 << 32),
            leaf: None,
        }
    }

    /// Returns the next run, or does one step towards it. Returns `None` at the end.
    pub(super) fn step(&mut self) -> Option<Result<WalkStep>> {
        if self.next >= self.end {
            return None;
        }
        let step = self.step_from(self.next);
        if step.is_err() {
            self.next = self.end;
        }
        Some(step)
    }

    fn step_from(&mut self, at: u64) -> Result<WalkStep> {
        if at < DIRECT {
            let structure = Structure::Inode(self.inode.number);
            return self.run(structure, &self.inode.block, at, DIRECT.saturating_sub(at));
        }
        let per_block = self.numbers_per_block();
        let leaf = match self.leaf.take() {
            Some(leaf) if at >= leaf.first && at < leaf.first.saturating_add(per_block) => leaf,
            _ => match self.find(at)? {
                LeafLookup::Hole { len_blocks } => {
                    self.next = at.saturating_add(len_blocks.max(1));
                    return Ok(WalkStep::Nothing);
                }
                LeafLookup::Leaf(leaf) => leaf,
            },
        };
        let position = at.saturating_sub(leaf.first);
        let structure = Structure::IndirectBlock(leaf.block);
        let left = per_block.saturating_sub(position);
        let step = self.run(structure, &leaf.numbers, position, left);
        self.leaf = Some(leaf);
        step
    }

    /// Returns the number of block numbers in a block: a power of two.
    fn numbers_per_block(&self) -> u64 {
        u64::from(self.volume.superblock.block_size.bytes()).wrapping_shr(2)
    }

    /// Returns the run or the hole that begins at a position in a block of numbers, of at most
    /// `left` of them.
    fn run(
        &mut self,
        structure: Structure,
        numbers: &[u8],
        position: u64,
        left: u64,
    ) -> Result<WalkStep> {
        let at = self.next;
        let left = left.min(self.end.saturating_sub(at));
        let number = |nth: u64| {
            let offset = index(position.saturating_add(nth)).saturating_mul(NUMBER_BYTES);
            le32(numbers, offset).map_or(0, u64::from)
        };
        let first = number(0);
        let continues = |nth: &u64| match first {
            0 => number(*nth) == 0,
            _ => number(*nth) == first.saturating_add(*nth),
        };
        let len = u64::try_from((1..left).take_while(continues).count())
            .unwrap_or(0)
            .saturating_add(1);
        self.next = at.saturating_add(len);
        if first == 0 {
            return Ok(WalkStep::Nothing);
        }
        let fs_block = FsBlock(first);
        self.volume
            .superblock
            .check_blocks(structure, fs_block, len)?;
        Ok(WalkStep::Run(Run {
            file_block: FileBlock(u32::try_from(at).unwrap_or(u32::MAX)),
            fs_block,
            len_blocks: u32::try_from(len).unwrap_or(u32::MAX),
            written: true,
        }))
    }

    /// Goes from the inode down to the block of numbers for file block `at`.
    fn find(&self, at: u64) -> Result<LeafLookup> {
        let bits = self.numbers_per_block().trailing_zeros();
        let mut within = at.saturating_sub(DIRECT);
        let mut levels = 1u32;
        // One level maps 2^bits blocks, two map 2^(2*bits), three the rest.
        while levels < 3 && within >= reach(bits, levels) {
            within = within.saturating_sub(reach(bits, levels));
            levels = levels.saturating_add(1);
        }
        let slot = index(levels)
            .saturating_add(11)
            .saturating_mul(NUMBER_BYTES);
        let mut structure = Structure::Inode(self.inode.number);
        let mut number = le32(&self.inode.block, slot).unwrap_or(0);
        loop {
            let below = reach(bits, levels);
            if number == 0 || levels == 0 || within >= below {
                let left = below.saturating_sub(within & below.wrapping_sub(1));
                return Ok(LeafLookup::Hole { len_blocks: left });
            }
            let block = FsBlock(u64::from(number));
            self.volume.superblock.check_blocks(structure, block, 1)?;
            let key = Key::indirect_block(self.inode.number, block);
            let numbers = self.volume.block(key)?;
            levels = levels.saturating_sub(1);
            if levels == 0 {
                let first = at.saturating_sub(within);
                return Ok(LeafLookup::Leaf(Leaf {
                    numbers,
                    block,
                    first,
                }));
            }
            let position = within.wrapping_shr(bits.saturating_mul(levels));
            within &= reach(bits, levels).wrapping_sub(1);
            structure = Structure::IndirectBlock(block);
            let offset = index(position).saturating_mul(NUMBER_BYTES);
            number = le32(&numbers, offset).unwrap_or(0);
        }
    }
}

/// Returns the number of file blocks that this many levels of blocks of 2^bits numbers map.
fn reach(bits: u32, levels: u32) -> u64 {
    1u64.checked_shl(bits.saturating_mul(levels))
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;

    use super::super::runs;
    use super::*;
    use crate::superblock::{Superblock, tests::sample};

    const BLOCK: usize = 4096;

    fn numbers(entries: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        for &(position, number) in entries {
            bytes[position * 4..][..4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn walk(
        root: &[(usize, u32)],
        blocks: &[(usize, Vec<u8>)],
        size_blocks: u64,
        from: u32,
    ) -> Result<Vec<(u32, u64, u32)>> {
        let mut disk = vec![0; 1024 * BLOCK];
        for (block, bytes) in blocks {
            disk[block * BLOCK..][..bytes.len()].copy_from_slice(bytes);
        }
        let superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
        let mut raw = vec![0; 256];
        raw[..2].copy_from_slice(&0o100_644u16.to_le_bytes());
        let size = size_blocks * 4096;
        raw[4..8].copy_from_slice(&size.to_le_bytes()[..4]);
        raw[0x6c..0x70].copy_from_slice(&size.to_le_bytes()[4..]);
        raw[0x28..0x64].copy_from_slice(&numbers(root)[..60]);
        let inode = Inode::parse(&superblock, 12, &raw).unwrap().unwrap();
        let volume = Volume::new(Arc::new(Memory::new(disk)), superblock, 1 << 20);
        let runs: Result<Vec<Run>> = runs(&volume, &inode, FileBlock(from)).collect();
        Ok(runs?
            .iter()
            .map(|run| (run.file_block.0, run.fs_block.0, run.len_blocks))
            .collect())
    }

    #[test]
    fn direct_blocks_up_to_the_end_of_the_file() {
        let root = [(0, 100), (1, 101), (3, 102), (11, 110)];
        let runs = walk(&root, &[], 12, 0).unwrap();
        assert_eq!(runs, [(0, 100, 2), (3, 102, 1), (11, 110, 1)]);
        assert_eq!(walk(&root, &[], 1, 0).unwrap(), [(0, 100, 1)]);
        assert_eq!(
            walk(&root, &[], 12, 1).unwrap(),
            [(1, 101, 1), (3, 102, 1), (11, 110, 1)]
        );
        assert!(walk(&root, &[], 0, 0).unwrap().is_empty());
    }

    #[test]
    fn all_three_levels() {
        let root = [(11, 99), (12, 20), (13, 21), (14, 22)];
        let blocks = [
            (20, numbers(&[(0, 100), (1023, 200)])),
            (21, numbers(&[(1, 23)])),
            (23, numbers(&[(5, 300)])),
            (22, numbers(&[(2, 24)])),
            (24, numbers(&[(3, 25)])),
            (25, numbers(&[(4, 400)])),
        ];
        let double = 12 + 1024;
        let triple = double + 1024 * 1024;
        let last = triple + 2 * 1024 * 1024 + 3 * 1024 + 4;
        let runs = walk(&root, &blocks, 1 << 31, 0).unwrap();
        let expected = [
            (11, 99, 2),
            (1035, 200, 1),
            (double + 1024 + 5, 300, 1),
            (last, 400, 1),
        ];
        assert_eq!(runs, expected);
        let runs = walk(&root, &blocks, 1 << 31, double + 1024 + 6).unwrap();
        assert_eq!(runs, [(last, 400, 1)]);
        // After everything that the map can reach there is a hole up to the file's end.
        assert!(walk(&root, &blocks, 1 << 32, last + 1).unwrap().is_empty());
    }

    #[test]
    fn a_number_outside_is_corrupt() {
        let e = walk(&[(0, 1024)], &[], 1, 0).unwrap_err();
        assert!(
            e.to_string().contains("inode 12 refers to block 1024"),
            "{e}"
        );
        let e = walk(&[(12, 5000)], &[], 13, 0).unwrap_err();
        assert!(e.to_string().contains("refers to block 5000"), "{e}");
        let blocks = [(20, numbers(&[(0, 1024)]))];
        let e = walk(&[(12, 20)], &blocks, 13, 0).unwrap_err();
        assert!(
            e.to_string()
                .contains("indirect block 20 refers to block 1024"),
            "{e}"
        );
    }

    #[test]
    fn a_search_in_an_empty_map_ends_at_its_limit() {
        // The triple indirect block refers to one double indirect block 1024 times, and so on down
        // to a block of zeroes: 2^30 file blocks, all holes, and too many steps for a list.
        let full = |block| numbers(&(0..1024).map(|n| (n, block)).collect::<Vec<_>>());
        let blocks = [(20, full(21)), (21, full(22)), (22, numbers(&[]))];
        let mut disk = vec![0; 1024 * BLOCK];
        for (block, bytes) in &blocks {
            disk[block * BLOCK..][..BLOCK].copy_from_slice(bytes);
        }
        let superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
        let mut raw = vec![0; 256];
        raw[..2].copy_from_slice(&0o100_644u16.to_le_bytes());
        raw[0x6c..0x70].copy_from_slice(&0x400u32.to_le_bytes());
        raw[0x28..0x64].copy_from_slice(&numbers(&[(14, 20)])[..60]);
        let inode = Inode::parse(&superblock, 12, &raw).unwrap().unwrap();
        let volume = Volume::new(Arc::new(Memory::new(disk)), superblock, 1 << 20);
        let start = std::time::Instant::now();
        let mut buf = vec![1; 1 << 20];
        let offset = 1 << 40;
        let n = crate::contents::read(&volume, &inode, offset, &mut buf).unwrap();
        assert!(n == buf.len() && buf.iter().all(|&byte| byte == 0));
        let extents = crate::contents::extents(&volume, Arc::new(inode), offset);
        let holes: Vec<_> = extents.take(2).map(Result::unwrap).collect();
        assert_eq!(holes[1].offset, offset + (1 << 32));
        // Without the bound this would take minutes in a debug build.
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    }

    #[test]
    fn a_map_that_leads_to_itself_ends() {
        // Every number in block 20 is 20 itself: it maps 2^30 blocks of the file.
        let own = [(20, numbers(&(0..1024).map(|n| (n, 20)).collect::<Vec<_>>()))];
        let root = [(14, 20)];
        let start = 12 + 1024 + 1024 * 1024;
        let mut disk = vec![0; 1024 * BLOCK];
        disk[20 * BLOCK..21 * BLOCK].copy_from_slice(&own[0].1);
        let runs = walk(&root, &own, u64::from(start) + 3, 0).unwrap();
        assert_eq!(
            runs,
            [(start, 20, 1), (start + 1, 20, 1), (start + 2, 20, 1)]
        );
    }
}
