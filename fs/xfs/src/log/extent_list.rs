//! Changing a sorted list of extents.

use crate::extent::{Extent, RECORD_BYTES};
use crate::superblock::FsBlock;

use super::mapping_change::{ChangeKind, MappingChange};

/// The largest length of an extent, `XFS_MAX_BMBT_EXTLEN`.
const LEN_BLOCKS_MAX: u32 = (1 << 21) - 1;

/// Applies a change to a list. Returns the new list; `None` if blocks are mapped already.
pub(super) fn changed(list: &[Extent], change: &MappingChange) -> Option<Vec<Extent>> {
    match change.kind {
        ChangeKind::Map => mapped(list, &change.extent),
        ChangeKind::Unmap => Some(unmapped(list, &change.extent)),
    }
}

/// Returns the number of blocks of a list.
pub(super) fn blocks(list: &[Extent]) -> u64 {
    let lens = list.iter().map(|extent| u64::from(extent.len_blocks));
    lens.fold(0, u64::saturating_add)
}

/// Packs the records of a list, as they are stored.
pub(super) fn pack(list: &[Extent]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(list.len().saturating_mul(RECORD_BYTES));
    for extent in list {
        let state = if extent.written { 0 } else { 1 << 63 };
        let high = state | extent.file_block.wrapping_shl(9) | extent.first.0.wrapping_shr(43);
        let low = extent.first.0.wrapping_shl(21) | u64::from(extent.len_blocks);
        bytes.extend(high.to_be_bytes());
        bytes.extend(low.to_be_bytes());
    }
    bytes
}

fn unmapped(list: &[Extent], removed: &Extent) -> Vec<Extent> {
    let mut left = Vec::with_capacity(list.len().saturating_add(1));
    for extent in list {
        if extent.end() <= removed.file_block || extent.file_block >= removed.end() {
            left.push(*extent);
            continue;
        }
        left.extend(part_of(extent, extent.file_block, removed.file_block));
        left.extend(part_of(extent, removed.end(), extent.end()));
    }
    left
}

/// Returns the part of an extent between two blocks of the file; `None` if there is none.
fn part_of(extent: &Extent, start: u64, end: u64) -> Option<Extent> {
    let skipped = start.checked_sub(extent.file_block)?;
    let len = end.checked_sub(start).filter(|len| *len > 0)?;
    Some(Extent {
        file_block: start,
        first: FsBlock(extent.first.0.saturating_add(skipped)),
        len_blocks: u32::try_from(len).ok()?,
        written: extent.written,
    })
}

fn mapped(list: &[Extent], added: &Extent) -> Option<Vec<Extent>> {
    let overlaps =
        |extent: &Extent| extent.file_block < added.end() && extent.end() > added.file_block;
    if list.iter().any(overlaps) {
        return None;
    }
    let mut new: Vec<Extent> = Vec::with_capacity(list.len().saturating_add(1));
    let (before, after) =
        list.split_at(list.partition_point(|extent| extent.file_block < added.file_block));
    new.extend(before);
    // The kernel joins the new extent with both of its neighbours, and no others.
    push_joined(&mut new, *added);
    let mut after = after.iter();
    if let Some(next) = after.next() {
        push_joined(&mut new, *next);
    }
    new.extend(after);
    Some(new)
}

/// Adds an extent, or lengthens the last one by it.
fn push_joined(list: &mut Vec<Extent>, extent: Extent) {
    if let Some(last) = list.last_mut()
        && last.end() == extent.file_block
        && last.first.0.checked_add(last.len_blocks.into()) == Some(extent.first.0)
        && last.written == extent.written
        && let Some(len) = last.len_blocks.checked_add(extent.len_blocks)
        && len <= LEN_BLOCKS_MAX
    {
        last.len_blocks = len;
        return;
    }
    list.push(extent);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(file_block: u64, first: u64, len_blocks: u32) -> Extent {
        Extent {
            file_block,
            first: FsBlock(first),
            len_blocks,
            written: true,
        }
    }

    fn change(kind: ChangeKind, extent: Extent) -> MappingChange {
        MappingChange {
            inode: 70,
            extent,
            kind,
        }
    }

    #[test]
    fn an_unmapped_middle_leaves_two_extents() {
        let list = [extent(0, 100, 10), extent(20, 200, 10)];
        let unmap = |start, len| {
            let change = change(ChangeKind::Unmap, extent(start, 0, len));
            changed(&list, &change).unwrap()
        };
        assert_eq!(
            unmap(2, 3),
            [extent(0, 100, 2), extent(5, 105, 5), extent(20, 200, 10)]
        );
        assert_eq!(unmap(8, 14), [extent(0, 100, 8), extent(22, 202, 8)]);
        assert_eq!(unmap(0, 30), []);
        assert_eq!(unmap(10, 10), list);
    }

    #[test]
    fn a_mapped_extent_joins_its_neighbours() {
        let list = [extent(0, 100, 10), extent(20, 200, 10)];
        let map = |added| changed(&list, &change(ChangeKind::Map, added));
        assert_eq!(map(extent(10, 110, 5)).unwrap()[0], extent(0, 100, 15));
        assert_eq!(map(extent(15, 195, 5)).unwrap()[1], extent(15, 195, 15));
        assert_eq!(map(extent(12, 50, 2)).unwrap().len(), 3);
        assert_eq!(map(extent(9, 50, 2)), None);
        let unwritten = Extent {
            written: false,
            ..extent(10, 110, 10)
        };
        let new = map(unwritten).unwrap();
        assert_eq!((new.len(), blocks(&new)), (3, 30));
    }
}
