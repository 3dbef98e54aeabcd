//! A walk along a block map that reports problems and goes on.

use super::context::Context;
use super::tree::{TreeVisitor, out_of_range};
use crate::block::{FileBlock, FsBlock};
use crate::bytes::{le32, len_u64};
use crate::error::{Result, Structure};
use crate::inode::Inode;
use crate::run::Run;

/// The number of direct block numbers in `i_block`.
const DIRECT: usize = 12;
const NUMBER_BYTES: usize = 4;

/// Walks along the block map of an inode.
pub(super) fn walk(
    context: &Context<'_>,
    inode: &Inode,
    visitor: &mut dyn TreeVisitor,
) -> Result<()> {
    MapWalk { context }.all(inode, visitor)
}

struct MapWalk<'a> {
    context: &'a Context<'a>,
}

/// A part of a block map.
struct Numbers<'a> {
    structure: Structure,
    bytes: &'a [u8],
    /// The first file block that the numbers map.
    first: u64,
    /// The number of levels of blocks of numbers between these numbers and the contents.
    levels: u32,
}

impl MapWalk<'_> {
    fn all(&self, inode: &Inode, visitor: &mut dyn TreeVisitor) -> Result<()> {
        let structure = Structure::Inode(inode.number);
        let (direct, indirect) = inode
            .block
            .split_at_checked(DIRECT.saturating_mul(NUMBER_BYTES))
            .unwrap_or_default();
        let numbers = Numbers {
            structure,
            bytes: direct,
            first: 0,
            levels: 0,
        };
        self.numbers(&numbers, visitor)?;
        let mut first = len_u64(DIRECT);
        for (levels, bytes) in (1u32..).zip(indirect.chunks(NUMBER_BYTES)) {
            let numbers = Numbers {
                structure,
                bytes,
                first,
                levels,
            };
            self.numbers(&numbers, visitor)?;
            first = first.saturating_add(self.reach(levels));
        }
        Ok(())
    }

    /// Returns the number of file blocks that a number with so many levels below it maps.
    fn reach(&self, levels: u32) -> u64 {
        let bits = self
            .context
            .superblock()
            .block_size
            .bits()
            .saturating_sub(2);
        1u64.checked_shl(bits.saturating_mul(levels))
            .unwrap_or(u64::MAX)
    }

    /// The levels decrease, so the recursion is at most three deep.
    fn numbers(&self, numbers: &Numbers<'_>, visitor: &mut dyn TreeVisitor) -> Result<()> {
        let reach = self.reach(numbers.levels);
        let mut run: Option<Run> = None;
        for (nth, bytes) in numbers.bytes.chunks(NUMBER_BYTES).enumerate() {
            let block = FsBlock(le32(bytes, 0).map_or(0, u64::from));
            if block.0 == 0 {
                continue;
            }
            let at = numbers
                .first
                .saturating_add(len_u64(nth).saturating_mul(reach));
            if !self.context.superblock().holds(block, 1) {
                out_of_range(self.context, numbers.structure, block, 1, visitor);
            } else if numbers.levels > 0 {
                self.descend(numbers, block, at, visitor)?;
            } else if let Ok(file_block) = u32::try_from(at) {
                let next = Run {
                    file_block: FileBlock(file_block),
                    fs_block: block,
                    len_blocks: 1,
                    written: true,
                };
                if !run.as_mut().is_some_and(|run| run.absorb(&next))
                    && let Some(complete) = run.replace(next)
                {
                    visitor.run(complete)?;
                }
            }
        }
        run.map_or(Ok(()), |run| visitor.run(run))
    }

    fn descend(
        &self,
        parent: &Numbers<'_>,
        block: FsBlock,
        first: u64,
        visitor: &mut dyn TreeVisitor,
    ) -> Result<()> {
        if !visitor.node(block)? {
            return Ok(());
        }
        let bytes = self.context.volume.read_blocks(block, 1)?;
        let numbers = Numbers {
            structure: Structure::IndirectBlock(block),
            bytes: &bytes,
            first,
            levels: parent.levels.saturating_sub(1),
        };
        self.numbers(&numbers, visitor)
    }
}

/// Returns the number of the block in `i_block` at a position.
pub(super) fn number_at(inode: &Inode, position: usize) -> u64 {
    let offset = position.saturating_mul(NUMBER_BYTES);
    le32(&inode.block, offset).map_or(0, u64::from)
}
