//! The numbers of blocks and inodes, and the bytes of the device that they stand for.
//!
//! Source: "XFS Algorithms & Data Structures", sections "Allocation Groups" and "Inode Numbers".

use std::fmt;

use super::{BASIC_BLOCK_BYTES, Superblock};

/// The number of a block: the allocation group in the upper bits, the block in it in the lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FsBlock(pub(crate) u64);

impl fmt::Display for FsBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FsBlock {
    /// Returns the block that is `blocks` later; saturates.
    pub(crate) fn after(self, blocks: u64) -> Self {
        Self(self.0.saturating_add(blocks))
    }
}

/// A block of an allocation group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgBlock {
    pub(crate) ag: u32,
    pub(crate) block: u32,
}

/// The low `bits` bits of `value`.
fn low(value: u64, bits: u32) -> u64 {
    value & 1_u64.wrapping_shl(bits).wrapping_sub(1)
}

impl Superblock {
    /// Returns the number of blocks of an allocation group; 0 if there is no such group.
    pub(crate) fn ag_len_blocks(&self, ag: u32) -> u32 {
        let start = u64::from(ag).saturating_mul(u64::from(self.ag_blocks));
        let left = self.blocks.saturating_sub(start);
        u32::try_from(left).unwrap_or(u32::MAX).min(self.ag_blocks)
    }

    /// Returns the byte of the device at which an allocation group starts.
    pub(crate) fn ag_start(&self, ag: u32) -> u64 {
        self.bytes_of(u64::from(ag).saturating_mul(u64::from(self.ag_blocks)))
    }

    /// Splits a block number; `None` if there is no such block.
    pub(crate) fn ag_block(&self, block: FsBlock) -> Option<AgBlock> {
        let ag = u32::try_from(block.0.checked_shr(self.ag_block_bits)?).ok()?;
        let within = u32::try_from(low(block.0, self.ag_block_bits)).ok()?;
        (within < self.ag_len_blocks(ag)).then_some(AgBlock { ag, block: within })
    }

    /// Joins the parts of a block number.
    pub(crate) fn fs_block(&self, ag: u32, block: u32) -> FsBlock {
        FsBlock(u64::from(ag).wrapping_shl(self.ag_block_bits) | u64::from(block))
    }

    /// Returns the byte of the device at which a block starts; `None` if there is no such block.
    pub(crate) fn byte_of(&self, block: FsBlock) -> Option<u64> {
        let place = self.ag_block(block)?;
        let within = self.bytes_of(u64::from(place.block));
        Some(self.ag_start(place.ag).saturating_add(within))
    }

    /// Returns the byte at which `len_blocks` blocks start, which must lie in one allocation group.
    pub(crate) fn run_bytes(&self, first: FsBlock, len_blocks: u64) -> Option<u64> {
        let place = self.ag_block(first)?;
        let end = u64::from(place.block).checked_add(len_blocks)?;
        if end > u64::from(self.ag_len_blocks(place.ag)) {
            return None;
        }
        self.byte_of(first)
    }

    /// Returns the allocation group of an inode and its number in it; `None` if it cannot exist.
    pub(crate) fn inode_place(&self, inode: u64) -> Option<(u32, u32)> {
        let bits = self.ag_block_bits.checked_add(self.inodes_per_block_bits)?;
        let ag = u32::try_from(inode.checked_shr(bits)?).ok()?;
        let within = u32::try_from(low(inode, bits)).ok()?;
        let block = within.wrapping_shr(self.inodes_per_block_bits);
        (ag < self.ag_count && block < self.ag_len_blocks(ag)).then_some((ag, within))
    }
}

/// Returns the address that self-describing metadata at this byte of the device contains.
pub(crate) fn basic_block(byte: u64) -> u64 {
    byte.wrapping_div(BASIC_BLOCK_BYTES)
}
