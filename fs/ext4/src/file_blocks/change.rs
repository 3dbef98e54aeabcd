//! Changes of the mapping of a file.
//!
//! These functions change the inode in memory (`i_block`, the count of blocks) and the blocks of
//! its tree or map. The caller holds the inode's lock, and stores the inode before it closes the
//! handle. After `NoSpace` the file is consistent; a part of the range may be done.

use std::ops::Range;

use crate::block::{FileBlock, FsBlock};
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::run::Run;
use crate::volume::Volume;

use super::allocation::{GROUPS_PER_STEP, Reserved};
use super::block_map;
use super::extent_tree::Editor;

/// The credits for `allocate` and [`map_new`] of one run, or for splitting at one place: five
/// levels of a tree with a new node each, for each of those and the run itself a bitmap and a
/// descriptor, and the inode.
pub(crate) const MAP_CREDITS: u32 = 26;
/// The credits for [`remove`] and other functions that change a file in steps: in addition, bitmaps
/// and descriptors of what is freed.
pub(crate) const REMOVE_CREDITS: u32 = MAP_CREDITS + 2 * GROUPS_PER_STEP;

/// The end of all possible file blocks.
pub(crate) const END: u64 = 1 << 32;

/// The mapping of a file block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockMapping {
    /// A run that begins there.
    Run(Run),
    /// A hole, which contains the file block.
    Hole(Hole),
}

/// File blocks that are not mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) start: FileBlock,
    /// The end of the hole, or of the search, as a file block.
    pub(crate) end: u64,
    /// The run before the hole, if it is known.
    pub(super) before: Option<Run>,
    /// The run after the hole, if it is known.
    pub(super) after: Option<Run>,
}

/// Returns the mapping of a file block, as far as `until`.
pub(crate) fn mapping_at(
    volume: &Volume,
    inode: &Inode,
    at: FileBlock,
    until: u64,
) -> Result<BlockMapping> {
    let place = if inode.has(InodeFlags::EXTENTS) {
        super::extent_tree::mapping_at(volume, inode, at, until)
    } else {
        block_map::mapping_at(volume, inode, at, until)
    };
    place.in_inode(inode.number)
}

/// Returns the whole extent that contains a file block.
pub(crate) fn extent_at(volume: &Volume, inode: &Inode, at: FileBlock) -> Result<Option<Run>> {
    let end = u64::from(at.0).saturating_add(1);
    super::extent_tree::next_run(volume, inode, u64::from(at.0), end).in_inode(inode.number)
}

/// Returns the number of file blocks that a block map can reach.
pub(crate) fn map_reach(volume: &Volume) -> u64 {
    block_map::reach_of(volume)
}

/// Gives a new file that has blocks an extent tree without extents, or a block map without blocks.
pub(crate) fn initialise(inode: &mut Inode) {
    inode.block = if inode.has(InodeFlags::EXTENTS) {
        super::empty_root()
    } else {
        [0; 60]
    };
}

/// Returns true if [`remove`] unmaps all of a file's blocks within one handle.
pub(crate) fn fits_in_one_step(volume: &Volume, inode: &Inode) -> bool {
    if inode.has(InodeFlags::EXTENTS) {
        super::extent_tree::fits_in_one_step(volume, inode)
    } else {
        block_map::fits_in_one_step(inode)
    }
}

/// Maps a run of blocks, which the file already owns, where nothing is mapped.
///
/// # Errors
/// `NoSpace`: nothing is changed if the run came from [`allocate`](super::allocate); otherwise the
/// beginning of a long run may be mapped. `FileTooLarge` past the reach of a block map; `Corrupt`,
/// `Io`.
pub(crate) fn map_new(handle: &Handle<'_>, inode: &mut Inode, run: Run) -> Result<()> {
    let number = inode.number;
    let result = if inode.has(InodeFlags::EXTENTS) {
        Editor::new(handle, inode).map(run)
    } else {
        block_map::map(handle, inode, run)
    };
    handle.volume().maps.forget(number);
    result.in_inode(number)
}

/// Allocates and maps one block after the file's last one, for a directory. The caller fills the
/// block, and increases the file's size.
///
/// # Errors
/// Fails like [`map_new`], with nothing changed.
pub(crate) fn append_block(handle: &Handle<'_>, inode: &mut Inode) -> Result<(FileBlock, FsBlock)> {
    let size = handle.volume().superblock.block_size;
    let at = u32::try_from(size.blocks_for(inode.size_bytes)).map_err(|_| too_large())?;
    let at = FileBlock(at);
    let end = u64::from(at.0).saturating_add(1);
    match mapping_at(handle.volume(), inode, at, end)? {
        // Left behind by a kernel that shortened the directory, or preallocated.
        BlockMapping::Run(run) => {
            mark_written(handle, inode, u64::from(at.0)..end)?;
            Ok((at, run.fs_block))
        }
        BlockMapping::Hole(hole) => {
            let new = super::new_run::allocate(handle, inode, &hole, &mut Reserved::new(0))?;
            let run = new.run();
            match map_new(handle, inode, run) {
                Ok(()) => Ok((at, run.fs_block)),
                Err(e) => {
                    new.undo(handle, inode)?;
                    Err(e)
                }
            }
        }
    }
}

/// Unmaps and frees the blocks within a range, from its end to its start.
///
/// It continues in further transactions if one has not enough room; before each, the inode is
/// stored with its current fields. So before this call, a file that is truncated must have its new
/// size and be on the orphan list. A hole is simply made in parts. The handle has
/// [`REMOVE_CREDITS`].
///
/// # Errors
/// `NoSpace`, with nothing changed, if an extent is split in two and its tree can't grow;
/// `Corrupt`, `Io`.
pub(crate) fn remove(handle: &Handle<'_>, inode: &mut Inode, range: Range<u64>) -> Result<()> {
    let number = inode.number;
    let result = in_steps(handle, inode, range, |handle, inode, range| {
        if inode.has(InodeFlags::EXTENTS) {
            Editor::new(handle, inode).remove_last(range)
        } else {
            block_map::remove_last(handle, inode, range)
        }
    });
    let result = match result {
        Ok(()) if inode.has(InodeFlags::EXTENTS) => Editor::new(handle, inode).shorten(),
        other => other,
    };
    handle.volume().maps.forget(number);
    result.in_inode(number)
}

/// Processes a range in steps from its end to its start, with room in the transaction for each.
fn in_steps(
    handle: &Handle<'_>,
    inode: &mut Inode,
    range: Range<u64>,
    step: impl Fn(&Handle<'_>, &mut Inode, &Range<u64>) -> Result<Option<u64>>,
) -> Result<()> {
    let mut range = range;
    while let Some(end) = step(handle, inode, &range)? {
        range.end = end;
        next_step(handle, inode, REMOVE_CREDITS)?;
    }
    Ok(())
}

/// Marks the mapped blocks of a range as written.
///
/// # Errors
/// `NoSpace`, after which a part of the range may be done; `Corrupt`, `Io`.
pub(crate) fn mark_written(
    handle: &Handle<'_>,
    inode: &mut Inode,
    range: Range<u64>,
) -> Result<()> {
    set_written(handle, inode, range, true)
}

/// Marks the mapped blocks of a range as unwritten: they read as zeroes. Only for files with
/// extents.
///
/// # Errors
/// Fails like [`mark_written`].
pub(crate) fn mark_unwritten(
    handle: &Handle<'_>,
    inode: &mut Inode,
    range: Range<u64>,
) -> Result<()> {
    set_written(handle, inode, range, false)
}

fn set_written(
    handle: &Handle<'_>,
    inode: &mut Inode,
    range: Range<u64>,
    written: bool,
) -> Result<()> {
    if !inode.has(InodeFlags::EXTENTS) {
        return Ok(());
    }
    let number = inode.number;
    let mut at = range.start;
    let result = loop {
        let left = at..range.end;
        match Editor::new(handle, inode).set_written_next(&left, written) {
            Ok(Some(next)) if next < range.end => at = next,
            other => break other.map(|_| ()),
        }
        if let Err(e) = next_step(handle, inode, MAP_CREDITS) {
            break Err(e);
        }
    };
    handle.volume().maps.forget(number);
    result.in_inode(number)
}

/// Stores the changes of the last step, and begins another one.
pub(super) fn next_step(handle: &Handle<'_>, inode: &Inode, credits: u32) -> Result<()> {
    handle.store(inode)?;
    handle.volume().maps.forget(inode.number);
    handle.extend_or_restart(credits)
}

/// Moves the blocks mapped from file block `from` on by `by` blocks towards the start, over a hole
/// of that length. It continues in further transactions like [`remove`].
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn shift_down(
    handle: &Handle<'_>,
    inode: &mut Inode,
    from: FileBlock,
    by: u32,
) -> Result<()> {
    let number = inode.number;
    let mut at = from;
    let result = loop {
        match Editor::new(handle, inode).move_down(at, by) {
            Ok(Some(next)) => at = next,
            Ok(None) => {
                let seam = FileBlock(from.0.saturating_sub(by));
                break Editor::new(handle, inode).join_at(seam);
            }
            Err(e) => break Err(e),
        }
        if let Err(e) = next_step(handle, inode, MAP_CREDITS) {
            break Err(e);
        }
    };
    handle.volume().maps.forget(number);
    result.in_inode(number)
}

/// Splits the extent that contains a file block, so that one begins there.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
pub(crate) fn split_at(handle: &Handle<'_>, inode: &mut Inode, at: FileBlock) -> Result<()> {
    let number = inode.number;
    Editor::new(handle, inode).split_at(at).in_inode(number)
}

/// Fails if [`shift_up`] would move a block past the last possible file block.
///
/// # Errors
/// `FileTooLarge`; `Corrupt`, `Io`.
pub(crate) fn check_shift_up(volume: &Volume, inode: &Inode, by: u32) -> Result<()> {
    let end = super::extent_tree::end_of(volume, inode).in_inode(inode.number)?;
    if end.saturating_add(u64::from(by)) >= END {
        return Err(too_large());
    }
    Ok(())
}

/// Moves the blocks mapped from file block `from` on by `by` blocks towards the end. The caller has
/// split the extent at `from` ([`split_at`]), and checked that nothing moves too far
/// ([`check_shift_up`]). It continues in further transactions like [`remove`].
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn shift_up(
    handle: &Handle<'_>,
    inode: &mut Inode,
    from: FileBlock,
    by: u32,
) -> Result<()> {
    let number = inode.number;
    let range = u64::from(from.0)..END;
    let result = in_steps(handle, inode, range, |handle, inode, range| {
        Editor::new(handle, inode).move_up(range, by)
    });
    handle.volume().maps.forget(number);
    result.in_inode(number)
}

/// Returns the error for a file that would be larger than its map can address.
pub(crate) fn too_large() -> Error {
    Error::new(
        ErrorKind::FileTooLarge,
        "the file would exceed the maximum size for its block map or extent tree",
    )
}
