//! Defective blocks: those that the inode `EXT4_BAD_INO` owns. Metadata at fixed places may be among
//! them, and an inode that is in such a block is left out of the check.

use zerocopy::FromBytes;

use super::block_set::BlockSet;
use super::context::Context;
use super::fields::InodeFields;
use super::finding::{FindingKind, FindingPlace};
use super::special::BAD_BLOCKS;
use super::tree::TreeVisitor;
use crate::block::FsBlock;
use crate::bytes::put;
use crate::error::Result;
use crate::group_descriptor::table_blocks_in_group;
use crate::inode::{Inode, LINKS_COUNT, RawInode};
use crate::run::Run;
use crate::superblock::superblock_block;

/// Claims the defective blocks, after the metadata at fixed places was claimed. Reports metadata in
/// them.
pub(super) fn claim(context: &Context<'_>) -> Result<()> {
    let Some(bytes) = read(context)? else {
        return Ok(());
    };
    let mut visitor = DefectiveBlocks {
        context,
        blocks: BlockSet::new(context.geometry.by_blocks(), context.budget)?,
        overlaps: false,
        is_silent: false,
    };
    walk(context, &bytes, &mut visitor)?;
    if visitor.overlaps {
        check_metadata(context, &visitor.blocks);
    }
    // No other thread sets it.
    let _ = context.defective.set(visitor.blocks);
    Ok(())
}

/// Claims the defective blocks once more, and reports nothing.
pub(super) fn claim_again(context: &Context<'_>) -> Result<()> {
    let Some(bytes) = read(context)? else {
        return Ok(());
    };
    let mut visitor = DefectiveBlocks {
        context,
        blocks: BlockSet::new(context.geometry.by_blocks(), context.budget)?,
        overlaps: false,
        is_silent: true,
    };
    walk(context, &bytes, &mut visitor)
}

/// Walks along the blocks of the list, whose inode has these bytes.
fn walk(context: &Context<'_>, bytes: &[u8], visitor: &mut DefectiveBlocks<'_>) -> Result<()> {
    // The inode of the list has no links.
    let mut with_link = bytes.to_vec();
    put(&mut with_link, LINKS_COUNT, &[1, 0]);
    let inode = Inode::parse_unchecked(context.superblock(), BAD_BLOCKS, &with_link);
    let (Ok(Some(inode)), Ok((raw, _))) = (inode, RawInode::ref_from_prefix(bytes)) else {
        return Ok(());
    };
    let fields = InodeFields {
        context,
        inode: &inode,
        raw,
        bytes,
    };
    fields.walk(visitor)
}

/// Returns the bytes of the inode, or `None` if it has no blocks.
fn read(context: &Context<'_>) -> Result<Option<Vec<u8>>> {
    let Some(group) = context.groups.first().filter(|group| group.has_table) else {
        return Ok(None);
    };
    let superblock = context.superblock();
    let mut bytes = vec![0; usize::from(superblock.inode_size)];
    let offset = superblock.block_size.byte_of(group.descriptor.inode_table);
    context.volume.read_device(offset, &mut bytes)?;
    let has_blocks = RawInode::ref_from_prefix(&bytes)
        .is_ok_and(|(raw, _)| raw.i_block.iter().any(|&byte| byte != 0));
    Ok(has_blocks.then_some(bytes))
}

/// Reports bitmaps, the superblock and descriptors in defective blocks.
fn check_metadata(context: &Context<'_>, blocks: &BlockSet) {
    let superblock = context.superblock();
    let found = |group: u32, block: FsBlock, what: &str| {
        if blocks.within(block, 1).clusters > 0 {
            let place = FindingPlace::group(group).with_block(block.0);
            let detail = format!("the {what} is in a defective block");
            context.found(FindingKind::DefectiveBlock, place, detail);
        }
    };
    let primary = superblock_block(superblock.block_size);
    found(0, primary, "superblock");
    for nth in 1..=table_blocks_in_group(superblock, 0) {
        found(0, primary.after(nth), "table of group descriptors");
    }
    for (group, read) in (0u32..).zip(&context.groups) {
        found(group, read.descriptor.block_bitmap, "block bitmap");
        found(group, read.descriptor.inode_bitmap, "inode bitmap");
    }
    if context.is_defective(BAD_BLOCKS, blocks) {
        let detail = "the list of defective blocks is in a defective block";
        context.found_in(FindingKind::DefectiveBlock, BAD_BLOCKS, detail);
    }
}

/// The visitor of the list's blocks.
struct DefectiveBlocks<'a> {
    context: &'a Context<'a>,
    blocks: BlockSet,
    /// True if one of them is metadata at a fixed place.
    overlaps: bool,
    /// True if the blocks are only claimed.
    is_silent: bool,
}

impl TreeVisitor for DefectiveBlocks<'_> {
    fn run(&mut self, run: Run) -> Result<()> {
        let context = self.context;
        let len_blocks = u64::from(run.len_blocks);
        self.blocks
            .insert(run.fs_block, len_blocks, context.budget, None)?;
        let overlap = context
            .claimed
            .insert(run.fs_block, len_blocks, context.budget, None)?;
        self.overlaps |= overlap.clusters > 0;
        Ok(())
    }

    fn node(&mut self, block: FsBlock) -> Result<bool> {
        let context = self.context;
        let overlap = context.claimed.insert(block, 1, context.budget, None)?;
        if overlap.clusters > 0 && !self.is_silent {
            let place = FindingPlace::inode(BAD_BLOCKS).with_block(block.0);
            let detail = "a block of the list of defective blocks has another owner, too";
            context.found(FindingKind::MultiplyClaimed, place, detail);
        }
        let overlap = context.trees.insert(block, 1, context.budget, None)?;
        Ok(overlap.clusters == 0)
    }

    fn problem(&mut self, kind: FindingKind, block: Option<FsBlock>, detail: String) {
        if self.is_silent {
            return;
        }
        let place = FindingPlace {
            block: block.map(|block| block.0),
            ..FindingPlace::inode(BAD_BLOCKS)
        };
        self.context.found(kind, place, detail);
    }
}
