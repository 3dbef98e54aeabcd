//! The backups of the superblock and of the descriptor table.

use std::ops::Range;
use std::sync::Arc;

use diskfs_block::BlockRead;

use crate::block::FsBlock;
use crate::bytes::low16;
use crate::device_writer::DeviceWriter;
use crate::error::{Result, device_failed};
use crate::features::Incompatible;
use crate::group_descriptor::{has_superblock, table_block, table_blocks_in_group};
use crate::journal::write_to_final_places;
use crate::superblock::{self, STATE_VALID, Superblock};

use super::edits::Blocks;

/// The size of a superblock.
const SUPERBLOCK_BYTES: usize = 1024;

/// A writer of backups. It reads the primary structures through `read`.
pub(crate) struct Backups<'b, R> {
    pub(crate) superblock: &'b Superblock,
    pub(crate) device: &'b DeviceWriter,
    /// The first block of the table that changed.
    pub(crate) from: u32,
    pub(crate) read: R,
}

impl<R: Fn(FsBlock) -> Result<Arc<[u8]>>> Backups<'_, R> {
    /// Writes the backups in these groups.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn write(&self, groups: Range<u32>) -> Result<()> {
        for group in groups {
            let mut blocks = self.table(group)?;
            if group > 0 && has_superblock(self.superblock, group) {
                let first = self.superblock.first_block_of_group(group);
                blocks.insert(first, self.superblock_copy(group)?);
            }
            let blocks = blocks.iter().map(|(block, bytes)| (*block, bytes));
            write_to_final_places(self.device, blocks)?;
        }
        Ok(())
    }

    /// Returns the copies of table blocks in a group.
    fn table(&self, group: u32) -> Result<Blocks> {
        let superblock = self.superblock;
        let first = superblock.first_block_of_group(group);
        let (nth, position) = superblock.descriptor_place(group);
        let behind = first.after(u64::from(has_superblock(superblock, group)));
        let mut copies = Blocks::new();
        if superblock.features.has(Incompatible::META_BG) && nth >= superblock.first_meta_bg {
            if position > 0 && table_blocks_in_group(superblock, group) > 0 && nth >= self.from {
                copies.insert(behind, (self.read)(table_block(superblock, nth))?);
            }
            return Ok(copies);
        }
        if group == 0 {
            return Ok(copies);
        }
        let end = table_blocks_in_group(superblock, group);
        for nth in self.from..u32::try_from(end).unwrap_or(u32::MAX) {
            let copy = behind.after(u64::from(nth));
            copies.insert(copy, (self.read)(table_block(superblock, nth))?);
        }
        Ok(copies)
    }

    /// Returns the block with a group's copy of the superblock. As e2fsprogs writes it, it is not
    /// marked as clean, and does not need recovery.
    fn superblock_copy(&self, group: u32) -> Result<Arc<[u8]>> {
        let size = self.superblock.block_size;
        let primary = (self.read)(superblock::superblock_block(size))?;
        let within = SUPERBLOCK_BYTES & size.len().wrapping_sub(1);
        let mut bytes = primary.get(within..).unwrap_or_default().to_vec();
        bytes.truncate(SUPERBLOCK_BYTES);
        superblock::change_bytes(self.superblock, &mut bytes, |raw| {
            raw.s_block_group_nr.set(low16(group));
            raw.s_state.set(raw.s_state.get() & !STATE_VALID);
            let features = raw.s_feature_incompat.get();
            let needs_recovery = Incompatible::NEEDS_RECOVERY.bits();
            raw.s_feature_incompat.set(features & !needs_recovery);
        })?;
        bytes.resize(size.len(), 0);
        Ok(bytes.into())
    }
}

/// Returns the first group with a backup of the superblock.
pub(crate) fn first_backup(superblock: &Superblock) -> Option<u32> {
    (1..superblock.groups_count).find(|&group| has_superblock(superblock, group))
}

/// Returns true if the first backup is valid and has the size of the filesystem. It is written last,
/// so all backups are complete then.
///
/// # Errors
/// `Io`.
pub(crate) fn are_current(device: &dyn BlockRead, superblock: &Superblock) -> Result<bool> {
    let Some(group) = first_backup(superblock) else {
        return Ok(true);
    };
    let first = superblock.first_block_of_group(group);
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device
        .read_at(superblock.block_size.byte_of(first), &mut bytes)
        .map_err(device_failed)?;
    // A crash can tear it: the size is then right, and the checksum is wrong.
    let backup = Superblock::parse(&bytes, device.size_bytes());
    Ok(backup.is_ok_and(|backup| backup.blocks_count == superblock.blocks_count))
}
