//! Writes a planned filesystem, in an order that a crash survives.

use std::ops::Range;

use diskfs_block::{BlockWrite, ErrorKind as DeviceErrorKind, wipe_ends};

use super::block_writer::BlockWriter;
use super::groups;
use super::options::FormatOptions;
use super::plan::Plan;
use super::superblock::bytes_for_group;
use super::zeroes::Zeroes;
use crate::allocator::has_flags;
use crate::block::FsBlock;
use crate::bytes::{index, len_u64, put};
use crate::error::{Result, device_failed, write_failed};
use crate::features::Incompatible;
use crate::group_descriptor::{has_superblock, table_blocks_in_group};
use crate::inode::{self, Inode};
use crate::superblock::{Superblock, superblock_block};

/// The first bytes of the device, with the superblock of an old filesystem.
const OLD_SUPERBLOCK_BYTES: u64 = 4096;
/// The byte offset of the superblock.
const SUPERBLOCK_OFFSET: u64 = 1024;
/// The part of the superblock with its magic: a write that a disk does not tear.
const SECTOR_BYTES: usize = 512;

/// Writes the filesystem. The sector with the magic comes last.
pub(super) fn write(
    device: &dyn BlockWrite,
    options: &FormatOptions,
    plan: &mut Plan,
) -> Result<()> {
    let mut zeroes = Zeroes::new(device);
    wipe(device, options, &mut zeroes)?;
    let zeroed = zero(options, plan, &mut zeroes)?;
    let mut writer = BlockWriter::new(device, plan.superblock.block_size);
    let table = groups::write(plan, &zeroed, &mut writer)?;
    write_inodes(plan, &mut writer)?;
    for (block, bytes) in std::mem::take(&mut plan.files.blocks) {
        writer.put(block, bytes)?;
    }
    count_kilobytes(plan, writer.bytes().saturating_add(len_u64(table.len())));
    write_descriptors(plan, &table, &mut writer)?;
    writer.write_all()?;
    write_superblock(device, &bytes_for_group(&mut plan.raw, 0))
}

/// Removes old filesystems: first their superblock, so that none is ever found with other metadata
/// missing.
fn wipe(device: &dyn BlockWrite, options: &FormatOptions, zeroes: &mut Zeroes<'_>) -> Result<()> {
    let size_bytes = device.size_bytes();
    let first = OLD_SUPERBLOCK_BYTES.min(size_bytes);
    if !zeroes.covers(0..first)? {
        device.write_zeroes(0, first).map_err(write_failed)?;
        device.flush().map_err(device_failed)?;
    }
    if options.extended.assume_zeroed {
        zeroes.assume_all();
        return Ok(());
    }
    if options.extended.discard {
        match device.discard(0, size_bytes) {
            Err(e) if e.kind() != DeviceErrorKind::Unsupported => return Err(write_failed(e)),
            _ => {}
        }
    }
    if zeroes.covers(0..size_bytes)? {
        return Ok(());
    }
    wipe_ends(device, 0).map_err(write_failed)
}

/// Zeroes the log and the inode tables as far as necessary. Returns for each group whether its inode
/// table reads as zeroes (after the inodes in use, which are written later).
fn zero(options: &FormatOptions, plan: &Plan, zeroes: &mut Zeroes<'_>) -> Result<Vec<bool>> {
    let size = plan.superblock.block_size;
    let bytes = |blocks: &Range<u64>| {
        size.byte_of(FsBlock(blocks.start))..size.byte_of(FsBlock(blocks.end))
    };
    if !options.extended.lazy_journal {
        for blocks in &plan.files.zeroes {
            zeroes.make(bytes(blocks))?;
        }
    }
    // Without checksums of descriptors nobody knows which part of a table was never written.
    let lazy = options.extended.lazy_inode_tables && has_flags(&plan.superblock);
    let table_blocks = u64::from(plan.superblock.inode_table_blocks());
    let mut zeroed = Vec::new();
    for tables in &plan.tables {
        let blocks = tables.inode_table..tables.inode_table.saturating_add(table_blocks);
        if !lazy {
            zeroes.make(bytes(&blocks))?;
        }
        zeroed.push(!lazy || zeroes.covers(bytes(&blocks))?);
    }
    Ok(zeroed)
}

/// Writes the blocks of the inode tables with the inodes in use.
fn write_inodes(plan: &Plan, writer: &mut BlockWriter<'_>) -> Result<()> {
    let superblock = &plan.superblock;
    let inode_bytes = usize::from(superblock.inode_size);
    let per_group = superblock.inodes_per_group;
    for (group, tables) in (0..).zip(&plan.tables) {
        let in_use = index(plan.inodes_in_use(group)).saturating_mul(inode_bytes);
        if in_use == 0 {
            break;
        }
        let mut table = vec![0; in_use.next_multiple_of(superblock.block_size.len())];
        let first = group.saturating_mul(per_group).saturating_add(1);
        for (number, bytes) in (first..).zip(table.chunks_mut(inode_bytes)) {
            if number > plan.last_inode || number >= first.saturating_add(per_group) {
                break;
            }
            encode(plan, number, bytes)?;
        }
        writer.put(FsBlock(tables.inode_table), table)?;
    }
    Ok(())
}

/// Encodes an inode. A reserved one that is not used has a checksum, too.
fn encode(plan: &Plan, number: u32, bytes: &mut [u8]) -> Result<()> {
    let is_it = |inode: &&Inode| inode.number == number;
    match plan.files.inodes.iter().find(is_it) {
        Some(inode) => inode::encode_new(&plan.superblock, inode, bytes),
        None => inode::set_deleted(&plan.superblock, number, 0, bytes),
    }
}

/// Sets the count of kilobytes that were written, if the filesystem has it.
fn count_kilobytes(plan: &mut Plan, bytes: u64) {
    let start = plan.raw.s_kbytes_written.get();
    if start > 0 {
        let kilobytes = start.saturating_add(bytes.wrapping_shr(10));
        plan.raw.s_kbytes_written.set(kilobytes);
    }
}

/// Writes the descriptor table and its copies, and the copies of the superblock.
fn write_descriptors(plan: &mut Plan, table: &[u8], writer: &mut BlockWriter<'_>) -> Result<()> {
    let block_bytes = plan.superblock.block_size.len();
    for group in 0..plan.superblock.groups_count {
        let superblock = &plan.superblock;
        let mut place = superblock.first_block_of_group(group);
        if group == 0 {
            place = superblock_block(superblock.block_size).after(1);
        } else if has_superblock(superblock, group) {
            let mut bytes = vec![0; block_bytes];
            put(&mut bytes, 0, &bytes_for_group(&mut plan.raw, group));
            writer.put(place, bytes)?;
            place = place.after(1);
        }
        writer.write_now(place, descriptors_in_group(superblock, group, table))?;
    }
    Ok(())
}

/// Returns the part of the descriptor table that a group contains.
fn descriptors_in_group<'a>(superblock: &Superblock, group: u32, table: &'a [u8]) -> &'a [u8] {
    let block_bytes = superblock.block_size.len();
    let blocks = index(table_blocks_in_group(superblock, group));
    let first = if superblock.features.has(Incompatible::META_BG) {
        index(superblock.descriptor_place(group).0)
    } else {
        0
    };
    let start = first.saturating_mul(block_bytes);
    let end = start.saturating_add(blocks.saturating_mul(block_bytes));
    table.get(start..end).unwrap_or_default()
}

/// Writes the superblock. Its magic is in its first sector, which is written when all else is
/// durable: without it there is no filesystem.
fn write_superblock(device: &dyn BlockWrite, bytes: &[u8]) -> Result<()> {
    let (first, second) = bytes.split_at_checked(SECTOR_BYTES).unwrap_or_default();
    let second_offset = SUPERBLOCK_OFFSET.saturating_add(len_u64(SECTOR_BYTES));
    device
        .write_at(second_offset, second)
        .map_err(write_failed)?;
    device.flush().map_err(device_failed)?;
    device
        .write_at(SUPERBLOCK_OFFSET, first)
        .map_err(write_failed)?;
    device.flush().map_err(device_failed)
}
