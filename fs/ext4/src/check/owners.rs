//! The owners of blocks that have more than one.

use zerocopy::FromBytes;

use super::context::Context;
use super::fields::InodeFields;
use super::finding::{FindingKind, FindingPlace};
use super::inode_tables::for_each_inode;
use super::special;
use super::tree::TreeVisitor;
use crate::block::FsBlock;
use crate::error::Result;
use crate::inode::{Inode, RawInode};
use crate::run::Run;

/// Looks for blocks that other inodes have, too, in the inodes of a group.
pub(super) fn report(context: &Context<'_>, group: u32) -> Result<()> {
    for_each_inode(context, group, |number, bytes| {
        let inode = Inode::parse_unchecked(context.superblock(), number, bytes);
        let (Ok(Some(inode)), Ok((raw, _))) = (inode, RawInode::ref_from_prefix(bytes)) else {
            return Ok(());
        };
        let is_other = number == special::RESIZE || number == special::BAD_BLOCKS;
        if context.inodes.get(number).is_none() || is_other || context.is_in_defective_block(number)
        {
            return Ok(());
        }
        let fields = InodeFields {
            context,
            inode: &inode,
            raw,
            bytes,
        };
        let mut owner = Owner::new(context);
        if fields.has_blocks() {
            fields.walk(&mut owner)?;
        }
        if inode.xattr_block != 0 {
            owner.look(FsBlock(inode.xattr_block), 1);
        }
        owner.report(number);
        Ok(())
    })
}

/// A visitor that looks for blocks with several owners.
#[derive(Debug)]
struct Owner<'a> {
    context: &'a Context<'a>,
    clusters: u64,
    first: Option<FsBlock>,
}

impl<'a> Owner<'a> {
    const fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            clusters: 0,
            first: None,
        }
    }

    /// Looks for blocks of a run that have several owners.
    fn look(&mut self, first: FsBlock, len_blocks: u64) {
        let overlap = self.context.twice.within(first, len_blocks);
        self.clusters = self.clusters.saturating_add(overlap.clusters);
        self.first = self.first.or(overlap.first);
    }

    /// Reports the blocks of an inode that have other owners, too.
    fn report(&self, inode: u32) {
        if let Some(first) = self.first {
            let place = FindingPlace::inode(inode).with_block(first.0);
            let detail = format!(
                "{} blocks or clusters of the inode have another owner, too; the first is {first}",
                self.clusters
            );
            self.context
                .found(FindingKind::MultiplyClaimed, place, detail);
        }
    }
}

impl TreeVisitor for Owner<'_> {
    fn run(&mut self, run: Run) -> Result<()> {
        self.look(run.fs_block, u64::from(run.len_blocks));
        Ok(())
    }

    fn node(&mut self, block: FsBlock) -> Result<bool> {
        self.look(block, 1);
        let context = self.context;
        let overlap = context.trees.insert(block, 1, context.budget, None)?;
        Ok(overlap.clusters == 0)
    }

    fn problem(&mut self, _: FindingKind, _: Option<FsBlock>, _: String) {}
}
