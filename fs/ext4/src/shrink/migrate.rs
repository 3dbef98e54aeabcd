//! Moving everything that files use out of the end of a filesystem. The filesystem is open for
//! writing meanwhile, and allocates only in the part that stays.

use std::sync::Arc;

use diskfs_block::BlockWrite;
use diskfs_vfs::Timestamp;

use crate::error::Result;
use crate::options::{RootReserve, TransactionGrouping, WriteOptions};
use crate::superblock::Superblock;
use crate::writable::WritableExt4;
use crate::xattr::RelocatedBlocks;

use super::inodes_in_use;
use super::relocate_blocks::relocate_blocks;
use super::relocate_inodes::relocate_inodes;

/// The inode that reserves blocks for the growth of the descriptor table.
const RESIZE_INODE: u32 = 7;

/// Moves blocks and inodes into `new`. `progress` is called after each inode, with the inode's
/// number.
///
/// # Errors
/// `NoSpace`, after which a part is moved; `Corrupt`, `Io`; those of `progress`.
pub(super) fn migrate(
    device: &Arc<dyn BlockWrite>,
    new: &Superblock,
    time: Timestamp,
    progress: &mut dyn FnMut(u32) -> Result<()>,
) -> Result<()> {
    let options = WriteOptions {
        commit_interval: None,
        grouping: TransactionGrouping::UntilClosed,
        root_reserve: RootReserve::Use,
        fixed_time: Some(time),
        ..WriteOptions::default()
    };
    let fs = WritableExt4::open_within(Arc::clone(device), &options, Some(new))?;
    let moved = move_all(&fs, new, progress);
    // What is moved stays moved: the next call continues from there.
    let finished = fs.finish();
    moved.and(finished)
}

fn move_all(
    fs: &WritableExt4,
    new: &Superblock,
    progress: &mut dyn FnMut(u32) -> Result<()>,
) -> Result<()> {
    let core = &fs.core;
    let superblock = &core.volume().superblock;
    let mut relocated = RelocatedBlocks::default();
    inodes_in_use::for_each(core.volume(), 0..superblock.groups_count, |number| {
        let is_special = number == RESIZE_INODE || number == superblock.journal_inode;
        if !is_special && core.volume().inode(number)?.is_some() {
            relocate_blocks(core, number, &mut relocated)?;
        }
        progress(number)
    })?;
    let last = superblock.inodes_count;
    relocate_inodes(core, new.groups_count, &mut || progress(last))
}
