//! Moving a file's blocks out of the part of the filesystem that will be cut off.

use crate::block::FsBlock;
use crate::error::{InInode, Result};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};

use super::block_map;
use super::change::{MAP_CREDITS, next_step};
use super::extent_tree::Editor;

/// The maximum number of blocks of metadata that [`Relocation::copy`] may change for one step.
const COPY_CREDITS: u32 = 32;
/// The credits for [`relocate`]: the mapping of one run, bitmaps and descriptors of the old blocks,
/// and the copies.
pub(crate) const RELOCATE_CREDITS: u32 = MAP_CREDITS + 8 + COPY_CREDITS;

/// The way in which the contents of a file are copied.
pub(crate) struct Relocation<'r> {
    /// Copies blocks from one place to another, within the handle that maps them.
    pub(crate) copy: &'r dyn Fn(&Handle<'_>, FsBlock, FsBlock, u32) -> Result<()>,
    /// The maximum number of blocks that are moved in one step.
    pub(crate) step_blocks: u32,
}

/// Moves all blocks of a file, and all blocks of its tree or map, that are not in the allocatable
/// part of the filesystem. The order of the file, its holes, and unwritten extents stay as they
/// are.
///
/// It continues in further transactions; before each, the inode is stored. The handle has
/// [`RELOCATE_CREDITS`].
///
/// # Errors
/// `NoSpace`, after which a part is moved; `Corrupt`, `Io`.
pub(crate) fn relocate(
    handle: &Handle<'_>,
    inode: &mut Inode,
    relocation: &Relocation<'_>,
) -> Result<()> {
    let number = inode.number;
    let mut from = 0;
    loop {
        let next = if inode.has(InodeFlags::EXTENTS) {
            Editor::new(handle, inode).relocate_step(from, relocation)
        } else {
            block_map::relocate_step(handle, inode, from, relocation)
        };
        let Some(next) = next.in_inode(number)? else {
            return Ok(());
        };
        from = next;
        next_step(handle, inode, RELOCATE_CREDITS)?;
    }
}
