//! Checks that the fields of a superblock fit together, to the device, and to this driver.

use crate::error::{Result, corrupt};
use crate::features::{Features, Incompatible};

use super::{RawSuperblock, Superblock, field};

impl Superblock {
    /// Checks that the sizes fit together.
    pub(super) fn check_geometry(&self, raw: &RawSuperblock) -> Result<()> {
        /// `XFS_MIN_AG_BLOCKS`.
        const AG_BLOCKS_MIN: u32 = 64;
        let per_block = 1_u32.wrapping_shl(self.inodes_per_block_bits);
        let inodes = u32::from(self.inode_bytes).saturating_mul(per_block);
        if inodes != self.block_bytes {
            return Err(field("sb_inopblock", per_block));
        }
        if self.features.has_checksums() && self.inode_bytes < 512 {
            return Err(field("sb_inodesize", self.inode_bytes));
        }
        if self.sector_bytes > self.block_bytes {
            return Err(field("sb_sectsize", self.sector_bytes));
        }
        let bits = self.ag_blocks.checked_next_power_of_two();
        let bits = bits.map(u32::trailing_zeros);
        if self.ag_blocks < AG_BLOCKS_MIN || bits != Some(self.ag_block_bits) {
            return Err(field("sb_agblocks", self.ag_blocks));
        }
        let groups = self.blocks.div_ceil(u64::from(self.ag_blocks).max(1));
        if groups != u64::from(self.ag_count) || self.ag_count == 0 {
            return Err(field("sb_agcount", self.ag_count));
        }
        if self.inode_percentage > 100 {
            return Err(field("sb_imax_pct", self.inode_percentage));
        }
        let sector = self.log_sector_bytes;
        if !sector.is_power_of_two() || !(512..=32 << 10).contains(&sector) {
            return Err(field("sb_logsectsize", raw.sb_logsectsize.get()));
        }
        self.check_places()
    }

    fn check_places(&self) -> Result<()> {
        if self.inode_place(self.root_inode).is_none() {
            return Err(field("sb_rootino", self.root_inode));
        }
        let Some(start) = self.log_start else {
            return Ok(());
        };
        match self.run_bytes(start, u64::from(self.log_blocks)) {
            Some(_) if self.log_blocks > 0 => Ok(()),
            _ => Err(field("sb_logstart", start.0)),
        }
    }

    pub(super) fn check_device(&self, device_bytes: u64) -> Result<()> {
        let bytes = self.blocks.checked_shl(self.block_bits).unwrap_or(u64::MAX);
        if self.blocks <= u64::MAX.wrapping_shr(self.block_bits) && bytes <= device_bytes {
            return Ok(());
        }
        let (blocks, size) = (self.blocks, self.block_bytes);
        let reason = format!(
            "the filesystem is larger than its device: {blocks} blocks of {size} bytes exceed \
             {device_bytes} bytes"
        );
        Err(corrupt(reason, 8).with_hint("get the complete image"))
    }
}

/// Checks the marks that make the kernel refuse to mount.
pub(super) fn check_state(raw: &RawSuperblock, features: Features) -> Result<()> {
    if raw.sb_inprogress != 0 {
        let reason = "mkfs.xfs or another tool has not finished its work on the filesystem";
        return Err(corrupt(reason, 126));
    }
    if features.has(Incompatible::NEEDSREPAIR) {
        let reason = "the filesystem is marked as needing repair, and Linux does not mount it";
        return Err(corrupt(reason, 216));
    }
    Ok(())
}
