//! The record of a change, for filesystems without a journal.
//!
//! All changed blocks are written to free blocks of the new space and flushed. Then the superblock
//! loses "clean", the blocks are written to their places, the superblock last, and the record is
//! wiped. After a crash the same call finds an unclean superblock and the record, and repeats the
//! writes. The record contains the checksum of that superblock, so it is never applied to a
//! filesystem that was used or repaired since.
//!
//! # Format
//!
//! | bytes | field |
//! |---|---|
//! | 0 to 15 | magic |
//! | 16 to 19 | CRC-32C of everything after this field |
//! | 20 to 23 | CRC-32C of the unclean superblock |
//! | 24 to 31 | number of blocks |
//! | from 32 on | a block number of 8 bytes each, then zeroes up to a whole block |
//! | after that | the blocks |

use std::ops::Range;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};

use crate::allocator::system_zone::SystemZone;
use crate::block::FsBlock;
use crate::bytes::{array, index, le32, len_u64, put};
use crate::checksum::crc32c;
use crate::device_writer::DeviceWriter;
use crate::error::{Error, ErrorKind, Result, device_failed};
use crate::features::Compatible;
use crate::superblock::{self, STATE_VALID, Superblock};

use super::edits::{Blocks, write_superblock_last};
use super::placement::{end_of_flex, place};
use super::{backups_differ, geometry};

/// The maximum number of changed blocks besides those of the descriptor table and of the reserve:
/// the superblock, two bitmaps with their descriptors, the resize inode and its double indirect
/// block.
pub(crate) const OTHER_BLOCKS_MAX: u32 = 8;

const MAGIC: [u8; 16] = *b"diskfs-ext4-grow";
const CHECKSUM: usize = 16;
const COVERED: usize = 20;
const COUNT: usize = 24;
const NUMBERS: usize = 32;
const NUMBER_BYTES: usize = 8;
/// The maximum memory for a record.
const BYTES_MAX: u32 = 64 << 20;
/// The place and the size of a superblock on the device.
const SUPERBLOCK: Range<u64> = 1024..2048;

/// The place of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    first: FsBlock,
    /// The maximum number of blocks in it.
    count_max: u32,
}

/// Returns the maximum number of blocks in a record.
pub(crate) fn blocks_max(superblock: &Superblock) -> u32 {
    let all = BYTES_MAX.wrapping_shr(superblock.block_size.bits());
    // The rest is for the block numbers.
    all.saturating_sub(all.wrapping_div(64)).saturating_sub(1)
}

/// Completes a stage that a crash has interrupted, if there is its record.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(crate) fn resume(
    device: &Arc<dyn BlockWrite>,
    superblock: &Superblock,
    target_blocks: u64,
) -> Result<()> {
    let state = superblock.state;
    if superblock.features.has(Compatible::HAS_JOURNAL) || state.clean || state.errors {
        return Ok(());
    }
    let reserved = u32::from(superblock.reserved_gdt_blocks).saturating_add(OTHER_BLOCKS_MAX);
    let room = blocks_max(superblock).saturating_sub(reserved);
    let Some(new) = geometry::next(superblock, target_blocks, room)? else {
        return Ok(());
    };
    let Some(record) = Record::place(superblock, &new)? else {
        return Ok(());
    };
    let writer = DeviceWriter::new(Arc::clone(device), superblock.block_size);
    match record.read(&**device, superblock)? {
        Some(blocks) => record.apply(&writer, &new, &blocks),
        None => Ok(()),
    }
}

/// Returns the error for a growth without room for a record.
pub(crate) fn no_room() -> Error {
    let reason = "the filesystem has no journal, and the new space has no room for a record of the \
                  change";
    let hint = "grow it by some more MiB at once";
    Error::new(ErrorKind::NoSpace, reason).with_hint(hint)
}

impl Record {
    /// Returns a record for at most `count_max` blocks at a place that the caller has chosen.
    pub(crate) const fn at(first: FsBlock, count_max: u32) -> Self {
        Self { first, count_max }
    }

    /// Returns the first block of the record.
    pub(crate) const fn first(&self) -> FsBlock {
        self.first
    }

    /// Returns the place of the record of a stage: the first run of new blocks without metadata
    /// that is long enough. It depends only on the two superblocks.
    ///
    /// # Errors
    /// `Corrupt` if a group has no room for its metadata.
    pub(crate) fn place(old: &Superblock, new: &Superblock) -> Result<Option<Self>> {
        let table = |s: &Superblock| s.descriptor_place(s.groups_count.saturating_sub(1)).0;
        let mut count_max = table(new)
            .saturating_sub(table(old))
            .saturating_add(OTHER_BLOCKS_MAX);
        if backups_differ(old, new) {
            count_max = count_max.saturating_add(u32::from(old.reserved_gdt_blocks));
        }
        let record = Self {
            first: FsBlock(old.blocks_count),
            count_max,
        };
        let len = record
            .header_blocks(new)
            .saturating_add(u64::from(count_max));
        let mut zone = SystemZone::default();
        let mut group = old.groups_count;
        while group < new.groups_count {
            let end = end_of_flex(new, group);
            for (group, descriptor) in (group..end).zip(place(new, group..end)?) {
                zone.add_group(new, group, &descriptor);
            }
            group = end;
        }
        zone.sort();
        let mut free = old.blocks_count;
        let space = new.blocks_count.saturating_sub(free);
        let end = std::iter::once((FsBlock(new.blocks_count), 0));
        for (first, used) in zone.within(FsBlock(free), space).chain(end) {
            if first.0.saturating_sub(free) >= len {
                return Ok(Some(Self {
                    first: FsBlock(free),
                    ..record
                }));
            }
            free = first.after(used).0;
        }
        Ok(None)
    }

    fn header_blocks(&self, superblock: &Superblock) -> u64 {
        let numbers = u64::from(self.count_max).saturating_mul(len_u64(NUMBER_BYTES));
        let bytes = numbers.saturating_add(len_u64(NUMBERS));
        superblock.block_size.blocks_for(bytes)
    }

    /// Writes the record, then the blocks, then wipes the record.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn commit(
        self,
        device: &DeviceWriter,
        new: &Superblock,
        changed: &Blocks,
    ) -> Result<()> {
        if changed.len() > index(self.count_max) {
            return Err(no_room());
        }
        let mut unclean = read_superblock(device.device())?;
        superblock::change_bytes(new, &mut unclean, |raw| {
            raw.s_state.set(raw.s_state.get() & !STATE_VALID);
        })?;
        let record = self.encode(new, &unclean, changed);
        device.write_block(self.first, &record)?;
        device.flush()?;
        superblock::change_on(device.device(), new, |raw| {
            raw.s_state.set(raw.s_state.get() & !STATE_VALID);
        })?;
        device.flush()?;
        self.apply(device, new, changed)
    }

    fn encode(self, new: &Superblock, unclean: &[u8], changed: &Blocks) -> Vec<u8> {
        let size = new.block_size.len();
        let header = index(self.header_blocks(new)).saturating_mul(size);
        let mut record = vec![0; header];
        put(&mut record, 0, &MAGIC);
        let covered = crc32c(u32::MAX, unclean);
        put(&mut record, COVERED, &covered.to_le_bytes());
        put(&mut record, COUNT, &len_u64(changed.len()).to_le_bytes());
        let offsets = (NUMBERS..).step_by(NUMBER_BYTES);
        for (offset, block) in offsets.zip(changed.keys()) {
            put(&mut record, offset, &block.0.to_le_bytes());
        }
        for bytes in changed.values() {
            record.extend_from_slice(bytes);
        }
        let checksum = crc32c(u32::MAX, record.get(COVERED..).unwrap_or_default());
        put(&mut record, CHECKSUM, &checksum.to_le_bytes());
        record
    }

    /// Reads the record; returns `None` if there is no complete record of this filesystem.
    pub(crate) fn read(self, device: &dyn BlockRead, old: &Superblock) -> Result<Option<Blocks>> {
        let size = old.block_size;
        let header_len = index(size.bytes_of(self.header_blocks(old)));
        let mut record = vec![0; header_len];
        let at = size.byte_of(self.first);
        device.read_at(at, &mut record).map_err(device_failed)?;
        let count = array(&record, COUNT).map_or(0, u64::from_le_bytes);
        if !record.starts_with(&MAGIC) || count > u64::from(self.count_max) {
            return Ok(None);
        }
        record.resize(header_len.saturating_add(index(size.bytes_of(count))), 0);
        device.read_at(at, &mut record).map_err(device_failed)?;
        let covered = crc32c(u32::MAX, &read_superblock(device)?);
        let checksum = crc32c(u32::MAX, record.get(COVERED..).unwrap_or_default());
        if le32(&record, CHECKSUM) != Some(checksum) || le32(&record, COVERED) != Some(covered) {
            return Ok(None);
        }
        let (header, contents) = record.split_at_checked(header_len).unwrap_or_default();
        let numbers = header.get(NUMBERS..).unwrap_or_default();
        let (numbers, _) = numbers.as_chunks::<NUMBER_BYTES>();
        let numbers = numbers.iter().map(|&number| u64::from_le_bytes(number));
        let blocks = numbers.zip(contents.chunks(size.len()));
        let blocks = blocks.map(|(number, bytes)| (FsBlock(number), Arc::from(bytes)));
        let blocks: Blocks = blocks.collect();
        let within = blocks.keys().all(|block| block.0 < old.blocks_count);
        Ok(within.then_some(blocks))
    }

    /// Writes the blocks to their places, the superblock last, and wipes the record.
    pub(crate) fn apply(
        self,
        device: &DeviceWriter,
        new: &Superblock,
        changed: &Blocks,
    ) -> Result<()> {
        write_superblock_last(device, new, changed)?;
        let header = new.block_size.byte_of(self.first);
        device.zero(header, u64::from(new.block_size.bytes()))?;
        device.flush()
    }
}

fn read_superblock(device: &dyn BlockRead) -> Result<Vec<u8>> {
    let len = SUPERBLOCK.end.saturating_sub(SUPERBLOCK.start);
    let mut bytes = vec![0; index(len)];
    device
        .read_at(SUPERBLOCK.start, &mut bytes)
        .map_err(device_failed)?;
    Ok(bytes)
}
