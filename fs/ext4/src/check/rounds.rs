//! Further rounds of claims, if the set of claimed clusters did not fit into its window: each round
//! claims the clusters of the next groups, and their bitmaps are compared before the next round.

use zerocopy::FromBytes;

use super::claims::Claims;
use super::context::Context;
use super::defective;
use super::fields::InodeFields;
use super::finding::{CheckPhase, FindingKind};
use super::inode_tables::for_each_inode;
use super::special::{self, HiddenInodes};
use super::summaries::SummaryPass;
use super::threads::Threads;
use super::tree::TreeVisitor;
use crate::block::FsBlock;
use crate::error::Result;
use crate::inode::{Inode, RawInode};
use crate::run::Run;
use crate::superblock::RawSuperblock;

/// Compares the bitmaps of the groups whose clusters are stored, and claims those of the next
/// groups, until the last groups are stored. Returns the first of these.
pub(super) fn run(
    context: &Context<'_>,
    raw: &RawSuperblock,
    hidden: HiddenInodes,
    summaries: &SummaryPass<'_>,
    threads: &mut Threads<'_>,
) -> Result<u32> {
    let phase = CheckPhase::Inodes;
    let groups = context.geometry.groups;
    loop {
        let stored = context.claimed.stored();
        if stored.end >= groups {
            return Ok(stored.start);
        }
        let count = stored.end.saturating_sub(stored.start);
        threads.run(context, phase, count, &|nth| {
            summaries.check_blocks(stored.start.saturating_add(nth))
        })?;
        context.claimed.store_next();
        context.trees.clear(context.budget);
        super::claim_metadata(context)?;
        summaries.count_metadata();
        claim_special(context, raw)?;
        threads.run(context, phase, groups, &|group| {
            claim_group(context, hidden, group)
        })?;
    }
}

/// Claims what no inode of the scan claims.
fn claim_special(context: &Context<'_>, raw: &RawSuperblock) -> Result<()> {
    let twice = Some(&context.twice);
    super::claim_mmp(context, raw)?;
    defective::claim_again(context)?;
    for &block in context.references.blocks().keys() {
        context
            .claimed
            .insert(FsBlock(block), 1, context.budget, twice)?;
    }
    Ok(())
}

/// Claims the clusters of the inodes of a group.
fn claim_group(context: &Context<'_>, hidden: HiddenInodes, group: u32) -> Result<()> {
    for_each_inode(context, group, |number, bytes| {
        let inode = Inode::parse_unchecked(context.superblock(), number, bytes);
        let (Ok(Some(inode)), Ok((raw, _))) = (inode, RawInode::ref_from_prefix(bytes)) else {
            return Ok(());
        };
        let is_left_out = number == special::BAD_BLOCKS
            || context.inodes.get(number).is_none()
            || context.is_in_defective_block(number)
            || (hidden.is_reserved(number) && !inode.is(diskfs_vfs::FileType::Regular));
        if is_left_out {
            return Ok(());
        }
        if number == special::RESIZE {
            return special::claim_resize_inode(context, &inode);
        }
        let fields = InodeFields {
            context,
            inode: &inode,
            raw,
            bytes,
        };
        if fields.has_blocks() {
            fields.walk(&mut ClaimsOnly(Claims::new(context, &inode)))?;
        }
        Ok(())
    })
}

/// A visitor that claims, and reports nothing: the scan has reported all problems.
struct ClaimsOnly<'a>(Claims<'a>);

impl TreeVisitor for ClaimsOnly<'_> {
    fn run(&mut self, run: Run) -> Result<()> {
        self.0.claim(run.fs_block, u64::from(run.len_blocks))
    }

    fn node(&mut self, block: FsBlock) -> Result<bool> {
        self.0.node(block)
    }

    fn problem(&mut self, _: FindingKind, _: Option<FsBlock>, _: String) {}
}
