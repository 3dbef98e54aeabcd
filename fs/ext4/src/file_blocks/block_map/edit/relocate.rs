//! Moving blocks out of the part of the filesystem that will be cut off.

use super::{MapPath, Slot, allocate_numbers, end_of_path, number_at, reach_of, set_numbers};
use crate::allocator::{Request, Reserve};
use crate::block::{FileBlock, FsBlock};
use crate::error::{Error, ErrorKind, Result};
use crate::file_blocks::allocation;
use crate::file_blocks::change::END;
use crate::file_blocks::relocate::Relocation;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::transaction::FreedRun;

/// Moves the first run or block of numbers at or after file block `from` that is not allocatable.
/// Returns the file block to continue with, or `None` if there is no such run.
pub(in crate::file_blocks) fn relocate_step(
    handle: &Handle<'_>,
    inode: &mut Inode,
    from: u64,
    relocation: &Relocation<'_>,
) -> Result<Option<u64>> {
    let volume = handle.volume();
    let end = reach_of(volume).min(END);
    let mut at = from;
    while let Some(block) = u32::try_from(at).ok().filter(|_| at < end) {
        let way = MapPath::find(volume, inode, FileBlock(block))?;
        if relocate_numbers(handle, inode, &way)? {
            return Ok(Some(at));
        }
        let path_end = end_of_path(volume, &way, FileBlock(block));
        if !way.missing.is_empty() {
            at = path_end;
            continue;
        }
        let slot = way.last()?;
        let left = path_end.saturating_sub(at);
        match outside(handle, inode, slot, left)? {
            Some(run) => {
                let moved = move_run(handle, inode, slot, run, relocation)?;
                return Ok(Some(at.saturating_add(run.skipped).saturating_add(moved)));
            }
            None => at = path_end,
        }
    }
    Ok(None)
}

/// A run of blocks within one block of numbers that is not allocatable.
#[derive(Debug, Clone, Copy)]
struct OutsideRun {
    /// The number of slots before it.
    skipped: u64,
    first: FsBlock,
    len_blocks: u64,
}

/// Returns the first such run in the `left` slots from `slot` on.
fn outside(
    handle: &Handle<'_>,
    inode: &Inode,
    slot: Slot,
    left: u64,
) -> Result<Option<OutsideRun>> {
    let end = handle.allocator.allocatable_end();
    let mut found: Option<OutsideRun> = None;
    for skipped in 0..left {
        let number = number_at(handle.volume(), inode, further(slot, skipped))?;
        let number = FsBlock(u64::from(number));
        match &mut found {
            Some(run) if number == run.first.after(run.len_blocks) => {
                run.len_blocks = run.len_blocks.saturating_add(1);
            }
            Some(_) => break,
            None if number >= end => {
                found = Some(OutsideRun {
                    skipped,
                    first: number,
                    len_blocks: 1,
                });
            }
            None => {}
        }
    }
    Ok(found)
}

fn further(slot: Slot, by: u64) -> Slot {
    let position = slot.position.saturating_add(crate::bytes::index(by));
    Slot { position, ..slot }
}

/// Moves the beginning of a run. Returns the number of moved blocks.
fn move_run(
    handle: &Handle<'_>,
    inode: &mut Inode,
    slot: Slot,
    run: OutsideRun,
    relocation: &Relocation<'_>,
) -> Result<u64> {
    let wanted = run.len_blocks.min(u64::from(relocation.step_blocks));
    let request = Request {
        goal: handle.allocator.goal_for(inode),
        len_blocks: u32::try_from(wanted).unwrap_or(u32::MAX),
        preallocate_blocks: 0,
        reserve: Reserve::Use,
    };
    let new = handle.allocator.allocate(handle, request)?;
    let len_blocks = u64::from(new.len_blocks);
    let end = new.first.after(len_blocks);
    if end.0 > 1 << 32 {
        let first = new.first;
        handle
            .allocator
            .undo(handle, FreedRun { first, len_blocks })?;
        let reason = "no space left below block 2^32, where a file with a block map must be stored";
        return Err(Error::new(ErrorKind::NoSpace, reason));
    }
    let numbers: Vec<u8> = (new.first.0..end.0)
        .flat_map(|block| u32::try_from(block).unwrap_or(0).to_le_bytes())
        .collect();
    set_numbers(handle, inode, further(slot, run.skipped), &numbers)?;
    (relocation.copy)(handle, run.first, new.first, new.len_blocks)?;
    let first = run.first;
    handle
        .allocator
        .free(handle, FreedRun { first, len_blocks })?;
    Ok(len_blocks)
}

/// Moves the first block of numbers on a path that is not allocatable. Returns true if there was
/// one.
fn relocate_numbers(handle: &Handle<'_>, inode: &mut Inode, way: &MapPath) -> Result<bool> {
    let end = handle.allocator.allocatable_end();
    for (&parent, slot) in way.slots.iter().zip(way.slots.iter().skip(1)) {
        let Some(block) = slot.block.filter(|block| *block >= end) else {
            continue;
        };
        let goal = handle.allocator.goal_for(inode);
        let new = allocate_numbers(handle, inode, goal)?;
        let bytes = handle
            .volume()
            .block(Key::indirect_block(inode.number, block))?;
        handle.replace(Key::indirect_block(inode.number, new), bytes);
        let number = u32::try_from(new.0).unwrap_or(0);
        set_numbers(handle, inode, parent, &number.to_le_bytes())?;
        allocation::free_tree_block(handle, inode, block)?;
        return Ok(true);
    }
    Ok(false)
}
