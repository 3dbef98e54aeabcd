//! Inode tables: reading an inode by its number, and many inodes in few reads.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Inode Table".

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::block::FsBlock;
use crate::bytes::{index, len_u64, part};
use crate::error::{InInode, Result, Structure, malformed};
use crate::group_descriptor::GroupDescriptor;
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::superblock::Superblock;
use crate::volume::Volume;

/// The size of the pieces in which a table is read and cached. Inodes of a directory are adjacent,
/// so neighbours are usually read next. 32 KiB contain 128 inodes of the usual size, and reading
/// them costs little more than reading one block.
const PIECE_BYTES: u32 = 32 * 1024;

/// The number of blocks that are read alone before whole pieces are. A command for one file needs a
/// dozen inodes, each in another directory's group.
const SINGLE_READS: u32 = 16;

/// The place of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InodePlace {
    group: u32,
    /// The byte offset in the group's table.
    offset: u64,
}

/// A piece of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TablePiece {
    first: FsBlock,
    len_blocks: u32,
}

impl Volume {
    /// Returns the inode, or `None` if it is not in use or its number is out of range.
    pub(crate) fn inode(&self, number: u32) -> Result<Option<Arc<Inode>>> {
        let read = || match read(self, number).in_inode(number) {
            Ok(Some(inode)) => Ok(Arc::new(inode)),
            Ok(None) => Err(None),
            Err(e) => Err(Some(e)),
        };
        match self.inodes.get_or_insert_with(&number, read) {
            Ok(inode) => Ok(Some(inode)),
            Err(None) => Ok(None),
            Err(Some(e)) => Err(e),
        }
    }

    /// Returns the first block of a group's inode table. The table never moves.
    pub(crate) fn inode_table(&self, group: u32) -> Result<FsBlock> {
        let read = || Ok(GroupDescriptor::read(self, group)?.inode_table);
        self.inode_tables.get_or_insert_with(&group, read)
    }
}

/// Reads an inode. Returns `None` if it is not in use or does not exist.
pub(crate) fn read(volume: &Volume, number: u32) -> Result<Option<Inode>> {
    let Some(place) = place(&volume.superblock, number) else {
        return Ok(None);
    };
    let (bytes, offset) = bytes_around(volume, place)?;
    let size = usize::from(volume.superblock.inode_size);
    match part(&bytes, offset, size) {
        Some(inode) => parse(volume, number, inode),
        None => Err(malformed(Structure::Inode(number), "truncated")),
    }
}

/// Parses an inode from a table's bytes, or from a fast commit's bytes that replace them.
fn parse(volume: &Volume, number: u32, table: &[u8]) -> Result<Option<Inode>> {
    let Some(fast_commits) = &volume.fast_commits else {
        return Inode::parse(&volume.superblock, number, table);
    };
    let inode = match fast_commits.inode_bytes(number, table)? {
        // The fast commit's own checksum was verified.
        Some(bytes) => Inode::parse_unchecked(&volume.superblock, number, &bytes),
        None => Inode::parse(&volume.superblock, number, table),
    };
    let changed = |inode: Inode| Inode {
        links: fast_commits.links(number, inode.links),
        ..inode
    };
    Ok(inode?.map(changed))
}

/// Announces that these inodes will be read soon: once for each run of pieces.
pub(crate) fn will_need(volume: &Volume, numbers: impl Iterator<Item = u32>) {
    let mut pieces: Vec<TablePiece> = numbers
        .filter_map(|number| place(&volume.superblock, number))
        .filter_map(|place| piece_at(volume, place).ok())
        .map(|(piece, _)| piece)
        .filter(|piece| !volume.has_block(Key::inode_table(piece.first)))
        .collect();
    pieces.sort_unstable();
    pieces.dedup();
    for run in merge(&pieces) {
        volume.will_need_blocks(run.0, run.1);
    }
}

/// Joins adjacent pieces to runs of blocks.
fn merge(pieces: &[TablePiece]) -> Vec<(FsBlock, u64)> {
    let mut runs: Vec<(FsBlock, u64)> = Vec::new();
    for piece in pieces {
        let len = u64::from(piece.len_blocks);
        match runs.last_mut() {
            Some((first, blocks)) if first.after(*blocks) == piece.first => {
                *blocks = blocks.saturating_add(len);
            }
            _ => runs.push((piece.first, len)),
        }
    }
    runs
}

fn place(superblock: &Superblock, number: u32) -> Option<InodePlace> {
    if number > superblock.inodes_count {
        return None;
    }
    let position = number.checked_sub(1)?;
    let within = position.checked_rem(superblock.inodes_per_group)?;
    Some(InodePlace {
        group: position.checked_div(superblock.inodes_per_group)?,
        offset: u64::from(within).saturating_mul(u64::from(superblock.inode_size)),
    })
}

/// Returns the piece that contains a place, and the byte offset in it.
fn piece_at(volume: &Volume, place: InodePlace) -> Result<(TablePiece, usize)> {
    let superblock = &volume.superblock;
    let table = volume.inode_table(place.group)?;
    let block_bytes = superblock.block_size.bytes();
    let bits = superblock.block_size.bits();
    // A power of two, as both of them are.
    let per_piece = PIECE_BYTES.max(block_bytes).wrapping_shr(bits);
    let block = u32::try_from(place.offset.wrapping_shr(bits)).unwrap_or(u32::MAX);
    let first = block & !per_piece.wrapping_sub(1);
    let left = superblock.inode_table_blocks().saturating_sub(first);
    let piece = TablePiece {
        first: table.after(u64::from(first)),
        len_blocks: per_piece.min(left),
    };
    let start = u64::from(first).saturating_mul(u64::from(block_bytes));
    Ok((piece, index(place.offset.saturating_sub(start))))
}

/// Returns the bytes around an inode, and its byte offset in them.
fn bytes_around(volume: &Volume, place: InodePlace) -> Result<(Arc<[u8]>, usize)> {
    let (piece, offset) = piece_at(volume, place)?;
    let (block, within) = block_of(volume, piece, offset);
    if volume.pool.is_some() {
        let key = Key::inode_table(block);
        return Ok((pooled(volume, piece, key)?, within));
    }
    let whole = Key::inode_table(piece.first);
    if let Some(bytes) = volume.metadata.get(&whole) {
        return Ok((bytes, offset));
    }
    let single = Key::inode_table_block(block);
    if volume.has_block(single) || may_read_single(volume) {
        return Ok((volume.block(single)?, within));
    }
    let read = || volume.read_blocks(piece.first, piece.len_blocks);
    Ok((volume.metadata.get_or_make(&whole, read)?, offset))
}

/// Returns true for the first reads of a volume.
fn may_read_single(volume: &Volume) -> bool {
    let reads = &volume.single_table_reads;
    reads.load(Ordering::Relaxed) < SINGLE_READS
        && reads.fetch_add(1, Ordering::Relaxed) < SINGLE_READS
}

/// Returns the block that contains byte `offset` of a piece, and the byte offset in that block.
fn block_of(volume: &Volume, piece: TablePiece, offset: usize) -> (FsBlock, usize) {
    let size = volume.superblock.block_size;
    let nth = len_u64(offset).wrapping_shr(size.bits());
    let within = offset & size.len().wrapping_sub(1);
    (piece.first.after(nth), within)
}

fn pooled(volume: &Volume, piece: TablePiece, key: Key) -> Result<Arc<[u8]>> {
    if let Some(pool) = &volume.pool
        && !pool.contains(key.block)
    {
        volume.fill_pool(pool, piece.first, piece.len_blocks)?;
    }
    volume.block(key)
}

/// Returns the block of the inode table that contains an inode, and the byte offset of the inode in
/// the block.
///
/// # Errors
/// `Corrupt` if the filesystem has no such inode; `Io`.
pub(crate) fn block_of_inode(volume: &Volume, number: u32) -> Result<(FsBlock, usize)> {
    let place = place(&volume.superblock, number)
        .ok_or_else(|| malformed(Structure::Inode(number), "no such inode in the filesystem"))?;
    let (piece, offset) = piece_at(volume, place)?;
    Ok(block_of(volume, piece, offset))
}

/// Reads the block of the inode table that contains an inode into the pool. Returns the block's
/// key, and the byte offset of the inode in the block.
///
/// # Errors
/// `Corrupt` if the filesystem has no such inode; `Io`.
pub(crate) fn key_of(volume: &Volume, number: u32) -> Result<(Key, usize)> {
    let place = place(&volume.superblock, number)
        .ok_or_else(|| malformed(Structure::Inode(number), "no such inode in the filesystem"))?;
    let (piece, offset) = piece_at(volume, place)?;
    let (block, within) = block_of(volume, piece, offset);
    let key = Key::inode_table(block);
    pooled(volume, piece, key)?;
    Ok((key, within))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pieces_are_one_run() {
        let piece = |first, len_blocks| TablePiece {
            first: FsBlock(first),
            len_blocks,
        };
        let runs = merge(&[piece(10, 8), piece(18, 8), piece(27, 8), piece(35, 2)]);
        assert_eq!(runs, [(FsBlock(10), 16), (FsBlock(27), 10)]);
    }

    #[test]
    fn numbers_start_at_one_and_end_with_the_count() {
        let s = Superblock::parse(&crate::superblock::tests::sample(), 4 << 20).unwrap();
        assert_eq!(place(&s, 0), None);
        assert_eq!(place(&s, 257), None);
        let last = InodePlace {
            group: 0,
            offset: 255 * 256,
        };
        assert_eq!(place(&s, 256), Some(last));
    }
}
