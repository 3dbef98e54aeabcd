//! Changing where a file's blocks are.
//!
//! What is here changes the inode in memory (`i_block`, what is allocated) and the blocks of its
//! tree or map; the caller holds the inode's lock, and stores the inode before it closes the handle.
//! After `NoSpace` the file is whole; of a range a part may be done.

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

/// Blocks of metadata that one of these may change: `allocate` and [`map_new`] of one run; splitting
/// at one place. Five levels of a tree with a new node each, and for each of those and the run
/// itself a bitmap and a descriptor; the inode.
pub(crate) const MAP_CREDITS: u32 = 26;
/// The same for [`remove`] and whatever else goes along a file in steps: besides, bitmaps and
/// descriptors of what is freed.
pub(crate) const REMOVE_CREDITS: u32 = MAP_CREDITS + 2 * GROUPS_PER_STEP;

/// The end of all file blocks there can be.
pub(crate) const END: u64 = 1 << 32;

/// What is in the place of a file block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A run, which begins there.
    Run(Run),
    /// Nothing.
    Hole(Hole),
}

/// File blocks that are not mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) start: FileBlock,
    /// The file block that it, or the search, ends before.
    pub(crate) end: u64,
    /// What is before it, where that is known.
    pub(super) before: Option<Run>,
    /// What is behind it, where that is known.
    pub(super) after: Option<Run>,
}

/// What is at a file block, as far as `until`.
pub(crate) fn place_at(volume: &Volume, inode: &Inode, at: FileBlock, until: u64) -> Result<Place> {
    let place = if inode.has(InodeFlags::EXTENTS) {
        super::extent_tree::place_at(volume, inode, at, until)
    } else {
        block_map::place_at(volume, inode, at, until)
    };
    place.in_inode(inode.number)
}

/// The whole extent that a file block is in.
pub(crate) fn extent_at(volume: &Volume, inode: &Inode, at: FileBlock) -> Result<Option<Run>> {
    let end = u64::from(at.0).saturating_add(1);
    super::extent_tree::next_run(volume, inode, u64::from(at.0), end).in_inode(inode.number)
}

/// How many file blocks a block map reaches.
pub(crate) fn map_reach(volume: &Volume) -> u64 {
    block_map::reach_of(volume)
}

/// Gives a new file that has blocks a tree without extents, or a map without blocks.
pub(crate) fn initialise(inode: &mut Inode) {
    inode.block = if inode.has(InodeFlags::EXTENTS) {
        super::empty_root()
    } else {
        [0; 60]
    };
}

/// Whether [`remove`] takes out all of a file's blocks within one handle.
pub(crate) fn goes_in_one_step(volume: &Volume, inode: &Inode) -> bool {
    if inode.has(InodeFlags::EXTENTS) {
        super::extent_tree::goes_in_one_step(volume, inode)
    } else {
        block_map::goes_in_one_step(inode)
    }
}

/// Enters a run of blocks, which are the file's already, where nothing is mapped.
///
/// # Errors
/// `NoSpace`, with nothing changed if the run came from [`allocate`](super::allocate), else the
/// beginning of a long one may be entered; `FileTooLarge` past what a block map reaches; `Corrupt`,
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

/// Allocates and maps one block behind the file's last one, for a directory. The caller fills the
/// block, and makes the file longer by it.
///
/// # Errors
/// As [`map_new`], with nothing changed.
pub(crate) fn append_block(handle: &Handle<'_>, inode: &mut Inode) -> Result<(FileBlock, FsBlock)> {
    let size = handle.volume().superblock.block_size;
    let at = u32::try_from(size.blocks_for(inode.size_bytes)).map_err(|_| too_large())?;
    let at = FileBlock(at);
    let end = u64::from(at.0).saturating_add(1);
    match place_at(handle.volume(), inode, at, end)? {
        // Left behind by a kernel that made the directory shorter, or allocated ahead.
        Place::Run(run) => {
            mark_written(handle, inode, u64::from(at.0)..end)?;
            Ok((at, run.fs_block))
        }
        Place::Hole(hole) => {
            let new = super::new_run::allocate(handle, inode, &hole, &mut Reserved::new(0))?;
            let run = new.run();
            match map_new(handle, inode, run) {
                Ok(()) => Ok((at, run.fs_block)),
                Err(e) => {
                    new.give_back(handle, inode)?;
                    Err(e)
                }
            }
        }
    }
}

/// Takes out what is mapped within a range, from its end to its start, and frees it.
///
/// Goes on in further transactions where one has not enough room: the inode is stored before each,
/// with all that its fields say then. So a file that is cut must have its new size, and be on the
/// orphan list, before this is called; a hole is just made in parts. The handle has
/// [`REMOVE_CREDITS`].
///
/// # Errors
/// `NoSpace`, with nothing changed, when an extent is cut in two and its tree can't grow;
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

/// Does a range in steps from its end to its start, with room in the transaction for each.
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

/// Says that what is mapped within a range holds data now.
///
/// # Errors
/// `NoSpace`: a part of the range may be done; `Corrupt`, `Io`.
pub(crate) fn mark_written(
    handle: &Handle<'_>,
    inode: &mut Inode,
    range: Range<u64>,
) -> Result<()> {
    set_written(handle, inode, range, true)
}

/// Says that what is mapped within a range reads as zeroes. Only for files with extents.
///
/// # Errors
/// As [`mark_written`].
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

/// Ends a step with what was done until now, and begins another.
fn next_step(handle: &Handle<'_>, inode: &Inode, credits: u32) -> Result<()> {
    handle.store(inode)?;
    handle.volume().maps.forget(inode.number);
    handle.go_on(credits)
}

/// Moves what is mapped from file block `from` on `by` blocks towards the start, over a hole that
/// is as long. Goes on in further transactions as [`remove`] does.
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

/// Makes two extents of the one that a file block is in the midst of, if it is.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
pub(crate) fn split_at(handle: &Handle<'_>, inode: &mut Inode, at: FileBlock) -> Result<()> {
    let number = inode.number;
    Editor::new(handle, inode).split_at(at).in_inode(number)
}

/// Fails when [`shift_up`] would move something past the last file block there can be.
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

/// Moves what is mapped from file block `from` on `by` blocks towards the end. No extent has `from`
/// in its midst ([`split_at`]), and nothing goes too far ([`check_shift_up`]). Goes on in further
/// transactions as [`remove`] does.
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

/// The file would be larger than its map can tell.
pub(crate) fn too_large() -> Error {
    Error::new(ErrorKind::FileTooLarge, "the file can't become so large")
}
