//! Changes of a block map.

mod relocate;

use std::ops::Range;

use crate::block::{FileBlock, FsBlock};
use crate::bytes::{index, le32, put};
use crate::error::{Error, ErrorKind, Result, Structure, malformed};
use crate::file_blocks::allocation::{self, Groups, PendingFrees};
use crate::file_blocks::{BlockMapping, Hole, WalkStep, too_large};
use crate::handle::Handle;
use crate::inode::Inode;
use crate::metadata_cache::{Key, zeroed};
use crate::run::Run;
use crate::volume::Volume;

use super::{DIRECT, NUMBER_BYTES, Walk, reach};

pub(in crate::file_blocks) use relocate::relocate_step;

/// The place of a block number: in the inode, or in a block of numbers.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The block of numbers, or `None` for `i_block`.
    block: Option<FsBlock>,
    position: usize,
}

/// The path from the inode to the number of a file block.
#[derive(Debug)]
struct MapPath {
    /// The slots from `i_block` on, as far as blocks exist. The last one contains the data block's
    /// number, or 0 if the path ends early.
    slots: Vec<Slot>,
    /// The positions in blocks of numbers that do not exist yet.
    missing: Vec<usize>,
    /// The number in the last slot.
    number: u32,
}

impl MapPath {
    /// Follows the path as far as blocks exist.
    fn find(volume: &Volume, inode: &Inode, at: FileBlock) -> Result<Self> {
        let (position, positions) = positions(volume, at)?;
        let mut slot = Slot {
            block: None,
            position,
        };
        let mut way = Self {
            slots: vec![slot],
            missing: Vec::new(),
            number: number_at(volume, inode, slot)?,
        };
        for position in positions {
            if way.number == 0 {
                way.missing.push(position);
                continue;
            }
            let block = FsBlock(u64::from(way.number));
            let structure = slot
                .block
                .map_or(Structure::Inode(inode.number), Structure::IndirectBlock);
            volume.superblock.check_blocks(structure, block, 1)?;
            slot = Slot {
                block: Some(block),
                position,
            };
            way.slots.push(slot);
            way.number = number_at(volume, inode, slot)?;
        }
        Ok(way)
    }

    fn last(&self) -> Result<Slot> {
        let too_far = || {
            malformed(
                Structure::Superblock,
                "a file block is outside of the reach of a block map",
            )
        };
        self.slots.last().copied().ok_or_else(too_far)
    }
}

/// Returns the position in `i_block` for a file block, and those in the blocks below.
fn positions(volume: &Volume, at: FileBlock) -> Result<(usize, Vec<usize>)> {
    let bits = numbers_bits(volume);
    let at = u64::from(at.0);
    if at < DIRECT {
        return Ok((index(at), Vec::new()));
    }
    let mut within = at.saturating_sub(DIRECT);
    for levels in 1..=3u32 {
        if within < reach(bits, levels) {
            let mask = reach(bits, 1).wrapping_sub(1);
            let below = (0..levels).rev();
            let position = |level: u32| within.wrapping_shr(bits.wrapping_mul(level)) & mask;
            let root = index(levels).saturating_add(11);
            return Ok((root, below.map(position).map(index).collect()));
        }
        within = within.saturating_sub(reach(bits, levels));
    }
    Err(too_large())
}

/// Returns the binary logarithm of the number of block numbers in a block.
fn numbers_bits(volume: &Volume) -> u32 {
    volume.superblock.block_size.bits().saturating_sub(2)
}

/// Returns the number of file blocks that a block map can reach.
pub(in super::super) fn reach_of(volume: &Volume) -> u64 {
    let bits = numbers_bits(volume);
    (1..=3).fold(DIRECT, |sum, levels| {
        sum.saturating_add(reach(bits, levels))
    })
}

/// Returns the end of the file blocks that the block of numbers for `at` maps.
pub(in super::super) fn leaf_end(volume: &Volume, at: FileBlock) -> u64 {
    let at = u64::from(at.0);
    let Some(within) = at.checked_sub(DIRECT) else {
        return DIRECT;
    };
    let per_block = reach(numbers_bits(volume), 1);
    let left = per_block.saturating_sub(within & per_block.wrapping_sub(1));
    at.saturating_add(left)
}

fn number_at(volume: &Volume, inode: &Inode, slot: Slot) -> Result<u32> {
    let offset = slot.position.saturating_mul(NUMBER_BYTES);
    let number = match slot.block {
        None => le32(&inode.block, offset),
        Some(block) => le32(
            &volume.block(Key::indirect_block(inode.number, block))?,
            offset,
        ),
    };
    Ok(number.unwrap_or(0))
}

/// Returns the mapping of a file block, as far as `until`; blocks after the file's end are
/// included.
pub(in super::super) fn mapping_at(
    volume: &Volume,
    inode: &Inode,
    at: FileBlock,
    until: u64,
) -> Result<BlockMapping> {
    let end = until.min(reach_of(volume));
    let mut walk = Walk::up_to(volume, inode, at, end);
    while let Some(step) = walk.step() {
        match step? {
            WalkStep::Run(run) if run.file_block == at => return Ok(BlockMapping::Run(run)),
            WalkStep::Run(run) => {
                return hole(volume, inode, at, u64::from(run.file_block.0), Some(run));
            }
            WalkStep::Nothing => {}
        }
    }
    if u64::from(at.0) >= end {
        return Err(too_large());
    }
    hole(volume, inode, at, end, None)
}

fn hole(
    volume: &Volume,
    inode: &Inode,
    start: FileBlock,
    end: u64,
    after: Option<Run>,
) -> Result<BlockMapping> {
    Ok(BlockMapping::Hole(Hole {
        start,
        end,
        before: block_before(volume, inode, start)?,
        after,
    }))
}

/// Returns the block before a file block, if it is mapped.
fn block_before(volume: &Volume, inode: &Inode, at: FileBlock) -> Result<Option<Run>> {
    let Some(before) = at.0.checked_sub(1) else {
        return Ok(None);
    };
    match Walk::up_to(volume, inode, FileBlock(before), u64::from(at.0)).step() {
        Some(Ok(WalkStep::Run(run))) => Ok(Some(run)),
        Some(Err(e)) => Err(e),
        _ => Ok(None),
    }
}

/// Maps a run of blocks where nothing is mapped.
///
/// # Errors
/// `NoSpace`, after which the beginning of the run may be mapped; `FileTooLarge`.
pub(in super::super) fn map(handle: &Handle<'_>, inode: &mut Inode, run: Run) -> Result<()> {
    let mut left = Some(run);
    while let Some(run) = left {
        let mut way = MapPath::find(handle.volume(), inode, run.file_block)?;
        if way.number != 0 {
            let structure = Structure::Inode(inode.number);
            return Err(malformed(
                structure,
                "one of the file blocks is mapped already",
            ));
        }
        add_missing(handle, inode, &mut way)?;
        let slot = way.last()?;
        let room = match slot.block {
            None => index(DIRECT),
            Some(_) => index(reach(numbers_bits(handle.volume()), 1)),
        };
        let room = room.saturating_sub(slot.position);
        let len = u32::try_from(room).unwrap_or(u32::MAX).min(run.len_blocks);
        let numbers: Vec<u8> = (run.fs_block.0..)
            .take(index(len))
            .flat_map(|block| u32::try_from(block).unwrap_or(0).to_le_bytes())
            .collect();
        set_numbers(handle, inode, slot, &numbers)?;
        let next = run.file_block.0.checked_add(len);
        left = next.and_then(|next| run.starting_at(FileBlock(next)));
    }
    Ok(())
}

/// Creates the blocks of numbers that a path lacks.
fn add_missing(handle: &Handle<'_>, inode: &mut Inode, way: &mut MapPath) -> Result<()> {
    let home = handle.allocator.goal_for(inode);
    let goal = way.slots.last().and_then(|slot| slot.block).unwrap_or(home);
    let mut new: Vec<FsBlock> = Vec::new();
    while new.len() < way.missing.len() {
        match allocate_numbers(handle, inode, goal) {
            Ok(block) => new.push(block),
            Err(e) => {
                for block in new {
                    allocation::undo_tree_block(handle, inode, block)?;
                }
                return Err(e);
            }
        }
    }
    for (block, position) in new.into_iter().zip(std::mem::take(&mut way.missing)) {
        let bytes = zeroed(handle.volume().superblock.block_size.len());
        handle.replace(Key::indirect_block(inode.number, block), bytes);
        let number = u32::try_from(block.0).unwrap_or(0);
        set_numbers(handle, inode, way.last()?, &number.to_le_bytes())?;
        way.slots.push(Slot {
            block: Some(block),
            position,
        });
    }
    Ok(())
}

fn allocate_numbers(handle: &Handle<'_>, inode: &mut Inode, goal: FsBlock) -> Result<FsBlock> {
    let block = allocation::allocate_tree_block(handle, inode, goal)?;
    if u32::try_from(block.0).is_ok() {
        return Ok(block);
    }
    allocation::undo_tree_block(handle, inode, block)?;
    let reason = "no space left below block 2^32, where a file with a block map must be stored";
    Err(Error::new(ErrorKind::NoSpace, reason))
}

/// Writes block numbers, as bytes, from a slot on.
fn set_numbers(handle: &Handle<'_>, inode: &mut Inode, slot: Slot, numbers: &[u8]) -> Result<()> {
    let offset = slot.position.saturating_mul(NUMBER_BYTES);
    match slot.block {
        None => put(&mut inode.block, offset, numbers),
        Some(block) => {
            let key = Key::indirect_block(inode.number, block);
            handle.change(key, |bytes| put(bytes, offset, numbers))?;
        }
    }
    Ok(())
}

/// Unmaps and frees the last blocks of a range, as far as one block of numbers goes. Returns the
/// end of the blocks before them, or `None` if nothing of the range is left.
pub(in super::super) fn remove_last(
    handle: &Handle<'_>,
    inode: &mut Inode,
    range: &Range<u64>,
) -> Result<Option<u64>> {
    let mut end = range.end.min(reach_of(handle.volume()));
    while let Some(last) = end.checked_sub(1).filter(|&last| last >= range.start) {
        let at = FileBlock(u32::try_from(last).unwrap_or(u32::MAX));
        let way = MapPath::find(handle.volume(), inode, at)?;
        if way.missing.is_empty() {
            let before = remove_in(handle, inode, &way, range.start..end)?;
            return Ok(Some(before).filter(|&before| before > range.start));
        }
        end = start_of_hole(handle.volume(), last, way.missing.len());
    }
    Ok(None)
}

/// Returns true if the map has only direct blocks.
pub(in super::super) fn fits_in_one_step(inode: &Inode) -> bool {
    let behind = index(DIRECT).saturating_mul(NUMBER_BYTES);
    let indirect = inode.block.get(behind..).unwrap_or_default();
    indirect.iter().all(|&byte| byte == 0)
}

/// Returns the blocks of numbers on the path to a file block, and the end of the last one or of the
/// hole.
pub(in super::super) fn nodes_at(
    volume: &Volume,
    inode: &Inode,
    at: FileBlock,
) -> Result<(Vec<FsBlock>, u64)> {
    if u64::from(at.0) >= reach_of(volume) {
        return Ok((Vec::new(), u64::MAX));
    }
    let way = MapPath::find(volume, inode, at)?;
    let nodes = way.slots.iter().filter_map(|slot| slot.block).collect();
    Ok((nodes, end_of_path(volume, &way, at)))
}

/// Returns the end of the block of numbers that a path leads to, or of the hole.
fn end_of_path(volume: &Volume, way: &MapPath, at: FileBlock) -> u64 {
    if way.missing.is_empty() {
        return leaf_end(volume, at);
    }
    let levels = u32::try_from(way.missing.len()).unwrap_or(3);
    let hole = reach(numbers_bits(volume), levels);
    start_of_hole(volume, u64::from(at.0), way.missing.len()).saturating_add(hole)
}

/// Returns the start of the hole that `levels` of missing blocks make.
fn start_of_hole(volume: &Volume, at: u64, levels: usize) -> u64 {
    let bits = numbers_bits(volume);
    let len = reach(bits, u32::try_from(levels).unwrap_or(3));
    // The part of the map for each number of levels begins at a multiple of a block of numbers,
    // after the direct ones and the parts with fewer levels.
    let mut start = DIRECT;
    for levels in 1..3u32 {
        let next = start.saturating_add(reach(bits, levels));
        if at < next {
            break;
        }
        start = next;
    }
    let within = at.saturating_sub(start);
    start.saturating_add(within & !len.wrapping_sub(1))
}

/// Removes the numbers that end with a path's last slot, back to `range.start` or the first number
/// of their block. Returns the file block of the first one.
fn remove_in(
    handle: &Handle<'_>,
    inode: &mut Inode,
    way: &MapPath,
    range: Range<u64>,
) -> Result<u64> {
    let slot = way.last()?;
    let mut groups = Groups::new(&handle.volume().superblock);
    let mut freeing = PendingFrees::default();
    let wanted = index(range.end.saturating_sub(range.start));
    let wanted = wanted.min(slot.position.saturating_add(1));
    let mut done = 0usize;
    while done < wanted {
        let position = slot.position.saturating_sub(done);
        let number = number_at(handle.volume(), inode, Slot { position, ..slot })?;
        if number != 0 {
            let block = FsBlock(u64::from(number));
            let owner = slot
                .block
                .map_or(Structure::Inode(inode.number), Structure::IndirectBlock);
            handle.volume().superblock.check_blocks(owner, block, 1)?;
            if groups.admit(one(block)).is_none() {
                break;
            }
            freeing.add(block, 1);
        }
        done = done.saturating_add(1);
    }
    let first = Slot {
        position: slot.position.saturating_add(1).saturating_sub(done),
        ..slot
    };
    let zeroes = vec![0; done.saturating_mul(NUMBER_BYTES)];
    set_numbers(handle, inode, first, &zeroes)?;
    freeing.finish(handle, inode)?;
    remove_empty(handle, inode, way)?;
    Ok(range.end.saturating_sub(u64::try_from(done).unwrap_or(0)))
}

fn one(block: FsBlock) -> Run {
    Run {
        file_block: FileBlock(0),
        fs_block: block,
        len_blocks: 1,
        written: true,
    }
}

/// Frees blocks of numbers that have become empty, from the end of a path.
fn remove_empty(handle: &Handle<'_>, inode: &mut Inode, way: &MapPath) -> Result<()> {
    let mut slots = way.slots.as_slice();
    while let Some((slot, above)) = slots.split_last()
        && let Some(block) = slot.block
    {
        let key = Key::indirect_block(inode.number, block);
        if handle.volume().block(key)?.iter().any(|&byte| byte != 0) {
            break;
        }
        if let Some(&parent) = above.last() {
            set_numbers(handle, inode, parent, &[0; NUMBER_BYTES])?;
        }
        allocation::free_tree_block(handle, inode, block)?;
        slots = above;
    }
    Ok(())
}
