//! Counting free space and inodes after a replay.

use crate::ag::{Agf, Agi, COUNTED_GROUPS_MAX, sector_byte};
use crate::error::Result;

use super::replay::Replay;
use super::self_describing::put_checksum;
use diskfs_block::bytes::put;

/// The offsets of `sb_icount`, `sb_ifree`, `sb_fdblocks` and `sb_crc`.
const INODES: usize = 128;
const FREE_INODES: usize = 136;
const FREE_BLOCKS: usize = 144;
const CRC: usize = 224;

/// The counters of a superblock.
#[derive(Debug, Default)]
struct Counters {
    inodes: u64,
    free_inodes: u64,
    free_blocks: u64,
}

impl Replay<'_> {
    /// Sets the counters of the superblock to the sums of the allocation groups': with lazy
    /// counters the superblock's are only valid after a clean unmount. Too many or invalid groups
    /// leave them as they are; reading files doesn't need both.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn recount(&mut self) -> Result<()> {
        let has_checksums = self.superblock.has_checksums();
        if !has_checksums && !self.superblock.features.has_lazy_counters() {
            return Ok(());
        }
        let Some(counters) = self.count() else {
            return Ok(());
        };
        let byte = sector_byte(&self.superblock, 0, 0);
        let mut sector = self.read(byte, crate::bytes::index(self.superblock.sector_bytes))?;
        put(&mut sector, INODES, &counters.inodes.to_be_bytes());
        put(
            &mut sector,
            FREE_INODES,
            &counters.free_inodes.to_be_bytes(),
        );
        put(
            &mut sector,
            FREE_BLOCKS,
            &counters.free_blocks.to_be_bytes(),
        );
        if has_checksums {
            put_checksum(&mut sector, CRC);
        }
        self.write(byte, &sector)
    }

    fn count(&self) -> Option<Counters> {
        if self.superblock.ag_count > COUNTED_GROUPS_MAX {
            return None;
        }
        let mut sum = Counters::default();
        for ag in 0..self.superblock.ag_count {
            let agf = Agf::read(self.overlay(), &self.superblock, ag).ok()?;
            let agi = Agi::read(self.overlay(), &self.superblock, ag).ok()?;
            let free = [agf.free_blocks, agf.list_count, agf.tree_blocks];
            for blocks in free {
                sum.free_blocks = sum.free_blocks.saturating_add(u64::from(blocks));
            }
            sum.inodes = sum.inodes.saturating_add(u64::from(agi.count));
            sum.free_inodes = sum.free_inodes.saturating_add(u64::from(agi.free_count));
        }
        let is_possible =
            sum.free_blocks <= self.superblock.blocks && sum.free_inodes <= sum.inodes;
        is_possible.then_some(sum)
    }
}
