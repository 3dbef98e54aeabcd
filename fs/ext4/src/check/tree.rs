//! The receiver of what a walk along the blocks of an inode finds.

use super::context::Context;
use super::finding::FindingKind;
use crate::block::FsBlock;
use crate::error::{Result, Structure};
use crate::run::Run;

/// The receiver of what a walk finds.
pub(super) trait TreeVisitor {
    /// Receives a run of contents, which is within the filesystem.
    fn run(&mut self, run: Run) -> Result<()>;

    /// Receives a block of the tree, which is within the filesystem. Returns true if the walk must
    /// read it.
    fn node(&mut self, block: FsBlock) -> Result<bool>;

    /// Receives a problem.
    fn problem(&mut self, kind: FindingKind, block: Option<FsBlock>, detail: String);
}

/// Reports blocks outside of the filesystem.
pub(super) fn out_of_range(
    context: &Context<'_>,
    structure: Structure,
    block: FsBlock,
    len_blocks: u64,
    visitor: &mut dyn TreeVisitor,
) {
    let count = context.superblock().blocks_count;
    let detail = format!(
        "{structure} refers to {len_blocks} blocks from block {block} on, outside of the \
         filesystem's {count} blocks"
    );
    visitor.problem(FindingKind::BlockOutOfRange, Some(block), detail);
}
