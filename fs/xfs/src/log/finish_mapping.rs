//! Finishing changes of files' mappings that the log has announced, as the kernel does after the
//! replay.
//!
//! Only changes are finished that fit into one list of extents: an inode, or a leaf of its tree.
//! Others would need new blocks, or a tree of another form.

use crate::bytes::{be16, be32, be64, index, len_u64, part};
use crate::error::{Result, unsupported};
use crate::extent::{Extent, RECORD_BYTES, parse_list};
use diskfs_block::bytes::put;

use super::extent_list::{blocks, changed, pack};
use super::fork_place::ForkPlace;
use super::log_dinode;
use super::mapping_change::MappingChange;
use super::replay::Replay;
use super::self_describing::put_checksum;

/// The offsets of fields of an inode: `di_format`, `di_nblocks`, and the two places of the number
/// of extents.
pub(super) const FORMAT: usize = 5;
const BLOCKS: usize = 64;
const EXTENTS: usize = 76;
const BIG_EXTENTS: usize = 24;
pub(super) const MODE: usize = 2;

/// `XFS_DINODE_FMT_EXTENTS` and `XFS_DINODE_FMT_BTREE`.
const FORMAT_EXTENTS: u8 = 2;
pub(super) const FORMAT_TREE: u8 = 3;

impl Replay<'_> {
    /// Finishes a change of a mapping.
    ///
    /// # Errors
    /// `Unsupported` if the change needs another form of the tree, `Corrupt`, `Io`.
    pub(super) fn finish_mapping(&mut self, change: &MappingChange) -> Result<()> {
        let byte = self.inode_byte(change.inode);
        let byte = byte.ok_or_else(|| self.invalid("an intent is for an impossible inode"))?;
        let mut inode = self.read(byte, usize::from(self.superblock.inode_bytes))?;
        if !self.superblock.has_checksums() {
            return Err(beyond_one_list());
        }
        let is_used = be16(&inode, 0) == Some(log_dinode::MAGIC)
            && be16(&inode, MODE).is_some_and(|mode| mode != 0);
        let fork = ForkPlace::both_of(&inode, true).map(|(data, _)| data);
        let (true, Some(fork)) = (is_used, fork) else {
            return Err(self.invalid("an intent is for an inode that is not in use"));
        };
        let (before, after) = match inode.get(FORMAT).copied() {
            Some(FORMAT_EXTENTS) => self.change_list(&mut inode, fork, change)?,
            Some(FORMAT_TREE) => self.change_tree(&mut inode, fork, change)?,
            _ => return Err(self.invalid("an intent is for an inode without extents")),
        };
        self.count_extents(&mut inode, &before, &after)?;
        put_checksum(&mut inode, log_dinode::CRC);
        self.write(byte, &inode)
    }

    /// Returns the byte of the device of an inode; `None` if it cannot exist.
    pub(super) fn inode_byte(&self, inode: u64) -> Option<u64> {
        let (ag, within) = self.superblock.inode_place(inode)?;
        let bits = self.superblock.inodes_per_block_bits;
        let block = self.superblock.bytes_of(within.wrapping_shr(bits).into());
        let nth = within & 1_u32.wrapping_shl(bits).wrapping_sub(1);
        let offset = u64::from(nth).saturating_mul(self.superblock.inode_bytes.into());
        let start = self.superblock.ag_start(ag);
        Some(start.saturating_add(block).saturating_add(offset))
    }

    /// Changes the list of extents in an inode. Returns it before and after.
    fn change_list(
        &mut self,
        inode: &mut [u8],
        fork: ForkPlace,
        change: &MappingChange,
    ) -> Result<(Vec<Extent>, Vec<Extent>)> {
        let count = index(extents_in(inode));
        let records = part(inode, fork.start, count.saturating_mul(RECORD_BYTES));
        let records = records.filter(|records| records.len() <= fork.len);
        let records = records.ok_or_else(|| self.invalid("an inode has an invalid fork"))?;
        let (before, after) = self.changed_list(records, change)?;
        let bytes = pack(&after);
        if bytes.len() > fork.len {
            return Err(beyond_one_list());
        }
        put(inode, fork.start, &bytes);
        Ok((before, after))
    }

    pub(super) fn changed_list(
        &self,
        records: &[u8],
        change: &MappingChange,
    ) -> Result<(Vec<Extent>, Vec<Extent>)> {
        let before = parse_list(&self.superblock, records, self.at())?;
        let after = changed(&before, change);
        let after = after.ok_or_else(|| self.invalid("an intent maps blocks that are mapped"))?;
        Ok((before, after))
    }

    /// Adds the differences of a list to the numbers of extents and of blocks.
    fn count_extents(&self, inode: &mut [u8], before: &[Extent], after: &[Extent]) -> Result<()> {
        let extents = extents_in(inode).saturating_add(len_u64(after.len()));
        let extents = extents.checked_sub(len_u64(before.len()));
        let total = be64(inode, BLOCKS)
            .unwrap_or(0)
            .saturating_add(blocks(after));
        let total = total.checked_sub(blocks(before));
        let (Some(extents), Some(total)) = (extents, total) else {
            return Err(self.invalid("an inode has fewer extents than its tree"));
        };
        put(inode, BLOCKS, &total.to_be_bytes());
        if log_dinode::has_big_counts(inode) {
            put(inode, BIG_EXTENTS, &extents.to_be_bytes());
        } else {
            let extents = u32::try_from(extents).unwrap_or(u32::MAX);
            put(inode, EXTENTS, &extents.to_be_bytes());
        }
        Ok(())
    }
}

/// Returns the error for a change that does not fit into one list of extents.
pub(super) fn beyond_one_list() -> crate::error::Error {
    unsupported(
        "unsupported log: it ends within a change of a file's mapping (BUI) that changes the form \
         of a tree",
    )
}

/// Returns the number of extents of an inode's data fork.
fn extents_in(inode: &[u8]) -> u64 {
    if log_dinode::has_big_counts(inode) {
        be64(inode, BIG_EXTENTS).unwrap_or(0)
    } else {
        be32(inode, EXTENTS).unwrap_or(0).into()
    }
}
