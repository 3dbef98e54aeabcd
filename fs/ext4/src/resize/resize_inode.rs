//! The resize inode (inode 7): a block map that owns the blocks after the descriptor tables, which
//! are reserved for their growth.
//!
//! Its only entry is a double indirect block. Entry `n` of that block, for `n` from the number of
//! table blocks on (modulo the number of entries), is the reserved block after the primary table.
//! That block is used as an indirect block: it lists the blocks at the same position after each
//! backup. Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Meta Block
//! Groups", and the layout that `mke2fs` writes.

use crate::block::FsBlock;
use crate::bytes::{index, le32, put, split64};
use crate::error::{Error, InInode, Result, Structure, malformed};
use crate::features::Compatible;
use crate::group_descriptor::{has_superblock, table_block};
use crate::inode::{self, Inode};
use crate::superblock::Superblock;

use super::Added;
use super::edits::Edits;
use super::old_groups::free_block;

/// The number of the resize inode, `EXT4_RESIZE_INO`.
const NUMBER: u32 = 7;
/// The offset of the double indirect block in `i_block`.
const DOUBLE_INDIRECT: usize = 13 * 4;
const POINTER_BYTES: usize = 4;

/// Adapts the resize inode to the new geometry; if the new filesystem has none, it is removed.
///
/// # Errors
/// `Corrupt` if it is not as the old geometry requires; `Io`.
pub(crate) fn update(new: &Superblock, edits: &mut Edits<'_>, added: &mut Added) -> Result<()> {
    let old = &edits.volume().superblock;
    if !old.features.has(Compatible::RESIZE_INODE) {
        return Ok(());
    }
    let map = ResizeInode::read(edits).in_inode(NUMBER)?;
    if new.features.has(Compatible::RESIZE_INODE) {
        return map.write(new, edits).in_inode(NUMBER);
    }
    let freed = free_block(new, edits, map.double_indirect)?;
    added.free = added.free.saturating_add(u64::from(freed));
    let (block, offset) = place(edits)?;
    let size = usize::from(new.inode_size);
    edits.change(block, |bytes| {
        let end = offset.saturating_add(size);
        bytes.get_mut(offset..end).unwrap_or_default().fill(0);
    })
}

/// Returns the double indirect block of the resize inode, if the filesystem has one.
///
/// # Errors
/// `Corrupt` if it is not as the geometry requires; `Io`.
pub(crate) fn double_indirect(edits: &Edits<'_>) -> Result<Option<FsBlock>> {
    let superblock = &edits.volume().superblock;
    if !superblock.features.has(Compatible::RESIZE_INODE) {
        return Ok(None);
    }
    let map = ResizeInode::read(edits).in_inode(NUMBER)?;
    Ok(Some(map.double_indirect))
}

/// Moves the double indirect block to `to`, a block below 2^32. The caller changes the bitmaps.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn move_double_indirect(edits: &mut Edits<'_>, to: FsBlock) -> Result<()> {
    let mut map = ResizeInode::read(edits).in_inode(NUMBER)?;
    let content = edits.read(map.double_indirect)?;
    edits.put(to, content);
    let (_, number) = split64(to.0);
    put(&mut map.inode.block, DOUBLE_INDIRECT, &number.to_le_bytes());
    put_inode(edits, &map.inode)
}

fn put_inode(edits: &mut Edits<'_>, inode: &Inode) -> Result<()> {
    let superblock = &edits.volume().superblock;
    let (block, offset) = place(edits)?;
    let end = offset.saturating_add(usize::from(superblock.inode_size));
    edits.change(block, |bytes| {
        let bytes = bytes.get_mut(offset..end).unwrap_or_default();
        inode::encode(superblock, inode, bytes)
    })?
}

/// The parsed resize inode of the old filesystem.
struct ResizeInode {
    inode: Inode,
    double_indirect: FsBlock,
}

impl ResizeInode {
    /// Reads and checks the inode and its double indirect block.
    fn read(edits: &Edits<'_>) -> Result<Self> {
        let superblock = &edits.volume().superblock;
        let (block, offset) = place(edits)?;
        let bytes = edits.read(block)?;
        let end = offset.saturating_add(usize::from(superblock.inode_size));
        let bytes = bytes.get(offset..end).unwrap_or_default();
        let inode = Inode::parse(superblock, NUMBER, bytes)?.ok_or_else(|| broken("not in use"))?;
        let double_indirect = le32(&inode.block, DOUBLE_INDIRECT).unwrap_or(0);
        let double_indirect = FsBlock(u64::from(double_indirect));
        superblock.check_blocks(Structure::Inode(NUMBER), double_indirect, 1)?;
        if inode.allocated_bytes != allocated_bytes(superblock) {
            return Err(broken("its number of blocks does not match the geometry"));
        }
        let pointers = edits.read(double_indirect)?;
        for nth in reserved(superblock) {
            let expected = table_block(superblock, nth).0;
            let found = le32(&pointers, pointer_offset(superblock, nth));
            if found.map(u64::from) != Some(expected) {
                return Err(broken("it does not own the reserved descriptor blocks"));
            }
        }
        Ok(Self {
            inode,
            double_indirect,
        })
    }

    /// Writes the inode and its blocks for the new geometry.
    fn write(mut self, new: &Superblock, edits: &mut Edits<'_>) -> Result<()> {
        let old = reserved(&edits.volume().superblock);
        let now = reserved(new);
        let removed: Vec<u32> = old.clone().filter(|nth| !now.contains(nth)).collect();
        let added: Vec<u32> = now.filter(|nth| !old.contains(nth)).collect();
        if !removed.is_empty() || !added.is_empty() {
            edits.change(self.double_indirect, |pointers| {
                for nth in removed {
                    put(pointers, pointer_offset(new, nth), &[0; POINTER_BYTES]);
                }
                for nth in added {
                    let (_, pointer) = split64(table_block(new, nth).0);
                    let offset = pointer_offset(new, nth);
                    put(pointers, offset, &pointer.to_le_bytes());
                }
            })?;
        }
        write_reserved(new, edits)?;
        let allocated = allocated_bytes(new);
        if allocated == self.inode.allocated_bytes {
            return Ok(());
        }
        self.inode.allocated_bytes = allocated;
        put_inode(edits, &self.inode)
    }
}

/// Writes the reserved blocks whose lists of backups change.
fn write_reserved(new: &Superblock, edits: &mut Edits<'_>) -> Result<()> {
    let Some(first) = reserved(new).next() else {
        return Ok(());
    };
    let count = u32::from(new.reserved_gdt_blocks);
    let groups: Vec<u32> = backups(new).collect();
    if groups.len() > new.block_size.len().wrapping_div(POINTER_BYTES) {
        return Err(broken("it cannot refer to so many backups"));
    }
    let present = edits.volume().read_blocks(table_block(new, first), count)?;
    let size = new.block_size.len();
    for (nth, present) in reserved(new).zip(present.chunks(size)) {
        let primary = table_block(new, nth);
        let mut pointers = vec![0; size];
        for (entry, &group) in groups.iter().enumerate() {
            let blocks = u64::from(group).saturating_mul(u64::from(new.blocks_per_group));
            let (_, pointer) = split64(primary.after(blocks).0);
            let offset = entry.saturating_mul(POINTER_BYTES);
            put(&mut pointers, offset, &pointer.to_le_bytes());
        }
        if pointers != present {
            edits.put(primary, pointers);
        }
    }
    Ok(())
}

/// Returns the numbers of the reserved blocks, as blocks of the descriptor table.
fn reserved(superblock: &Superblock) -> std::ops::Range<u32> {
    let last = superblock.groups_count.saturating_sub(1);
    let first = superblock.descriptor_place(last).0.saturating_add(1);
    first..first.saturating_add(u32::from(superblock.reserved_gdt_blocks))
}

/// Returns the groups with a backup.
fn backups(superblock: &Superblock) -> impl Iterator<Item = u32> {
    (1..superblock.groups_count).filter(|&group| has_superblock(superblock, group))
}

/// Returns `i_blocks` in bytes: the double indirect block, and each reserved block with its copies.
/// With bigalloc each block counts as a cluster, as mke2fs does.
fn allocated_bytes(superblock: &Superblock) -> u64 {
    let copies = u64::try_from(backups(superblock).count()).unwrap_or(u64::MAX);
    let blocks = u64::from(superblock.reserved_gdt_blocks)
        .saturating_mul(copies.saturating_add(1))
        .saturating_add(1);
    superblock
        .block_size
        .bytes_of(blocks)
        .wrapping_shl(superblock.cluster_ratio_bits)
}

fn pointer_offset(superblock: &Superblock, nth: u32) -> usize {
    let pointers = superblock.block_size.len().wrapping_div(POINTER_BYTES);
    let entry = index(nth) & pointers.wrapping_sub(1);
    entry.saturating_mul(POINTER_BYTES)
}

/// Returns the block that holds the inode, and the byte offset in it.
fn place(edits: &Edits<'_>) -> Result<(FsBlock, usize)> {
    let superblock = &edits.volume().superblock;
    let position = NUMBER.saturating_sub(1);
    let per_group = superblock.inodes_per_group;
    let group = position.checked_div(per_group).unwrap_or(0);
    let offset = u64::from(position.checked_rem(per_group).unwrap_or(0))
        .saturating_mul(u64::from(superblock.inode_size));
    let table = edits.descriptor(group)?.inode_table;
    let block = table.after(offset.wrapping_shr(superblock.block_size.bits()));
    let within = u64::from(superblock.block_size.bytes()).wrapping_sub(1) & offset;
    Ok((block, index(within)))
}

fn broken(problem: &'static str) -> Error {
    malformed(Structure::Inode(NUMBER), problem).with_hint("on a copy, e2fsck repairs it")
}
