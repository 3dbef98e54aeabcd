//! Inodes that no directory refers to: the reserved ones, the orphan file and quota files, and the
//! inode that reserves blocks for resizing.

use super::context::Context;
use super::finding::{FindingKind, FindingPlace};
use super::map_walk::number_at;
use crate::block::FsBlock;
use crate::bytes::{index, le32, len_u64};
use crate::error::Result;
use crate::features::Compatible;
use crate::group_descriptor::{has_superblock, table_blocks_in_group};
use crate::inode::{Inode, ROOT, RawInode};
use crate::superblock::{RawSuperblock, Superblock, superblock_block};

/// `EXT4_BAD_INO`: the inode that owns the defective blocks.
pub(super) const BAD_BLOCKS: u32 = 1;
/// The inode that reserves blocks for the growth of the descriptors, `EXT4_RESIZE_INO`.
pub(super) const RESIZE: u32 = 7;
/// The inode of an internal journal, `EXT4_JOURNAL_INO`.
pub(super) const JOURNAL: u32 = 8;
/// The number of block numbers in `i_block`.
const BLOCK_NUMBERS: usize = 15;
/// The position of the double indirect block number in `i_block`.
const DOUBLE_INDIRECT: usize = 13;

/// The inodes that have no name.
#[derive(Debug, Clone, Copy)]
pub(super) struct HiddenInodes {
    first_inode: u32,
    /// The inode numbers that `i_dtime` may contain by mistake; 0 if times are as small.
    numbers_end: u32,
    others: [u32; 4],
}

impl HiddenInodes {
    pub(super) fn new(superblock: &Superblock, raw: &RawSuperblock) -> Self {
        let end = superblock.inodes_count;
        let times = [&raw.s_wtime, &raw.s_mtime, &raw.s_mkfs_time].map(|time| time.get());
        // A filesystem that was never mounted or has no creation time has 0 there.
        let is_time = |time: u32| time == 0 || time >= end;
        Self {
            first_inode: superblock.first_inode,
            numbers_end: if times.into_iter().all(is_time) {
                end
            } else {
                0
            },
            others: [
                superblock.orphan_file_inode,
                raw.s_usr_quota_inum.get(),
                raw.s_grp_quota_inum.get(),
                raw.s_prj_quota_inum.get(),
            ],
        }
    }

    /// Returns true if the inode is reserved: its bit in the bitmap is always set.
    pub(super) const fn is_reserved(&self, inode: u32) -> bool {
        inode < self.first_inode && inode != ROOT
    }

    /// Returns true if a time of deletion is rather the next inode of a broken orphan list.
    pub(super) const fn is_orphan_link(&self, deleted: u32) -> bool {
        deleted != 0 && deleted < self.numbers_end
    }

    /// Returns true if the inode has no name.
    pub(super) fn contains(&self, inode: u32) -> bool {
        self.is_reserved(inode) || self.others.contains(&inode)
    }
}

/// Reports an inode without contents, although it must reserve blocks.
pub(super) fn check_is_used(context: &Context<'_>, raw: &RawInode) {
    let superblock = context.superblock();
    let must_be_used =
        superblock.features.has(Compatible::RESIZE_INODE) && superblock.reserved_gdt_blocks > 0;
    if must_be_used && (raw.i_mode.get() == 0 || raw.i_links_count.get() == 0) {
        let detail = "the inode is not in use, although it must reserve blocks";
        context.found_in(FindingKind::ResizeInode, RESIZE, detail);
    }
}

/// Checks the inode that reserves the blocks after the group descriptors for their growth. Returns
/// the number of blocks that it counts.
///
/// Its double indirect block refers to the reserved blocks of group 0. Each of those contains the
/// numbers of the same block after the backups of the descriptors.
pub(super) fn check_resize_inode(context: &Context<'_>, inode: &Inode) -> Result<u64> {
    let superblock = context.superblock();
    if !superblock.features.has(Compatible::RESIZE_INODE) {
        if (0..BLOCK_NUMBERS).any(|position| number_at(inode, position) != 0) {
            let detail = "the inode has blocks, although the feature `resize_inode` is not set";
            context.found_in(FindingKind::ResizeInode, RESIZE, detail);
        }
        return Ok(0);
    }
    let double = FsBlock(number_at(inode, DOUBLE_INDIRECT));
    let is_other =
        |&position: &usize| position != DOUBLE_INDIRECT && number_at(inode, position) != 0;
    if let Some(position) = (0..BLOCK_NUMBERS).find(is_other) {
        let block = number_at(inode, position);
        let detail = format!("i_block[{position}] is {block}, expected 0");
        context.found_in(FindingKind::ResizeInode, RESIZE, detail);
    }
    if superblock.reserved_gdt_blocks == 0 && double.0 == 0 {
        return Ok(0);
    }
    if !superblock.holds(double, 1) {
        let detail = format!("the double indirect block is {double}, outside of the filesystem");
        context.found_in(FindingKind::ResizeInode, RESIZE, detail);
        return Ok(0);
    }
    claim_resize_inode(context, inode)?;
    let bytes = context.volume.read_blocks(double, 1)?;
    let table_blocks = table_blocks_in_group(superblock, 0);
    let first = superblock_block(superblock.block_size)
        .after(table_blocks)
        .after(1);
    let per_block = u64::from(superblock.block_size.bytes()).wrapping_shr(2);
    let mut blocks = 1u64;
    for nth in 0..u64::from(superblock.reserved_gdt_blocks) {
        let expected = first.after(nth);
        let position = index(
            table_blocks
                .saturating_add(nth)
                .checked_rem(per_block)
                .unwrap_or(0),
        );
        let found = le32(&bytes, position.saturating_mul(4)).unwrap_or(0);
        if u64::from(found) != expected.0 {
            let place = FindingPlace::inode(RESIZE).with_block(double.0);
            let detail = format!("entry {position} is block {found}, expected {expected}");
            context.found(FindingKind::ResizeInode, place, detail);
            return Ok(0);
        }
        match check_reserved(context, expected)? {
            Some(reserved) => blocks = blocks.saturating_add(reserved),
            None => return Ok(0),
        }
    }
    Ok(blocks)
}

/// Claims the double indirect block. The blocks that it refers to are metadata at fixed places.
pub(super) fn claim_resize_inode(context: &Context<'_>, inode: &Inode) -> Result<()> {
    let superblock = context.superblock();
    let double = FsBlock(number_at(inode, DOUBLE_INDIRECT));
    if superblock.features.has(Compatible::RESIZE_INODE) && superblock.holds(double, 1) {
        let twice = Some(&context.twice);
        context.claimed.insert(double, 1, context.budget, twice)?;
    }
    Ok(())
}

/// Checks a reserved block of group 0. Returns the number of blocks that it stands for, or `None` if
/// it is invalid.
fn check_reserved(context: &Context<'_>, block: FsBlock) -> Result<Option<u64>> {
    let superblock = context.superblock();
    let bytes = context.volume.read_blocks(block, 1)?;
    let offset = block.0.saturating_sub(superblock.first_block_of_group(0).0);
    let mut position = 0usize;
    for group in (1..superblock.groups_count).filter(|&group| has_superblock(superblock, group)) {
        let expected = superblock.first_block_of_group(group).after(offset);
        let found = le32(&bytes, position.saturating_mul(4)).unwrap_or(0);
        if u64::from(found) != expected.0 {
            let place = FindingPlace::inode(RESIZE).with_block(block.0);
            let detail = format!("entry {position} is block {found}, expected {expected}");
            context.found(FindingKind::ResizeInode, place, detail);
            return Ok(None);
        }
        position = position.saturating_add(1);
    }
    let behind = bytes.get(position.saturating_mul(4)..).unwrap_or_default();
    if behind.iter().any(|&byte| byte != 0) {
        let place = FindingPlace::inode(RESIZE).with_block(block.0);
        let detail = format!("entry {position} or a later one is not 0");
        context.found(FindingKind::ResizeInode, place, detail);
        return Ok(None);
    }
    Ok(Some(len_u64(position).saturating_add(1)))
}
