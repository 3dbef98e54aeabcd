//! Reading the blocks of the log.

use std::sync::Arc;

use diskfs_block::BlockRead;

use crate::bytes::{array, be32, index, part};
use crate::error::{Error, Result, corrupt, device_failed};
use crate::superblock::Superblock;

/// The size of a block of the log, `BBSIZE`: the unit in which its structures count.
pub(super) const BLOCK_BYTES: u32 = 512;
/// The binary logarithm of [`BLOCK_BYTES`].
pub(super) const BLOCK_BITS: u32 = 9;
/// [`BLOCK_BYTES`] as a length in memory.
pub(super) const BLOCK_LEN: usize = 512;

/// `XLOG_HEADER_MAGIC_NUM`, at the start of a record.
pub(super) const RECORD_MAGIC: u32 = 0xfeed_babe;
/// The size of the payload whose first words fit in one header, `XLOG_HEADER_CYCLE_SIZE`; also the
/// size of the kernel's log buffers by default.
pub(super) const CYCLES_BYTES: u32 = 32 << 10;

/// The largest size of a log, `XFS_MAX_LOG_BYTES`.
const LOG_BYTES_MAX: u64 = 1 << 31;
/// The number of blocks that a scan reads at once.
const CHUNK_BLOCKS: u32 = 256;

/// Reads the internal log: a ring of blocks of 512 bytes.
#[derive(Debug)]
pub(super) struct LogReader {
    device: Arc<dyn BlockRead>,
    /// The byte of the device at which the log starts.
    start: u64,
    /// The number of blocks.
    pub(super) blocks: u32,
    pub(super) has_checksums: bool,
    /// True if the filesystem permits logs of version 2.
    pub(super) is_version_2: bool,
    pub(super) uuid: [u8; 16],
    /// The size of the kernel's log buffers for this filesystem, in bytes.
    pub(super) buffer_bytes: u32,
    /// The first block of the chunk that was read last, and its bytes.
    chunk: Option<(u32, Vec<u8>)>,
}

impl LogReader {
    /// Locates the log.
    ///
    /// # Errors
    /// `Corrupt` if there is no internal log, or if it does not lie within an allocation group.
    pub(super) fn new(device: Arc<dyn BlockRead>, superblock: &Superblock) -> Result<Self> {
        use crate::features::VersionFlags;
        let place = superblock
            .log_start
            .and_then(|start| superblock.run_bytes(start, u64::from(superblock.log_blocks)));
        let start = place.ok_or_else(|| corrupt("the log lies outside of the filesystem", 0))?;
        let bytes = superblock.bytes_of(u64::from(superblock.log_blocks));
        let blocks = u32::try_from(bytes >> BLOCK_BITS);
        let blocks = blocks.ok().filter(|_| bytes <= LOG_BYTES_MAX);
        let blocks = blocks.filter(|blocks| *blocks >= 2);
        let Some(blocks) = blocks else {
            return Err(corrupt(
                format!("invalid log: its size is {bytes} bytes"),
                start,
            ));
        };
        Ok(Self {
            device,
            start,
            blocks,
            has_checksums: superblock.has_checksums(),
            is_version_2: superblock.features.flags.contains(VersionFlags::LOGV2),
            uuid: superblock.uuid,
            buffer_bytes: superblock.log_stripe_bytes.max(CYCLES_BYTES),
            chunk: None,
        })
    }

    /// Returns the byte of the device at which a block of the log starts.
    pub(super) fn byte_of(&self, block: u32) -> u64 {
        let within = u64::from(block).saturating_mul(u64::from(BLOCK_BYTES));
        self.start.saturating_add(within)
    }

    /// Returns the error for an invalid structure in a block of the log.
    pub(super) fn corrupt(&self, reason: impl std::fmt::Display, block: u32) -> Error {
        corrupt(format!("invalid log: {reason}"), self.byte_of(block))
    }

    /// Returns the block at which a number of blocks after the start of the ring lies.
    pub(super) fn wrap(&self, blocks: u64) -> u32 {
        let block = blocks.checked_rem(u64::from(self.blocks)).unwrap_or(0);
        u32::try_from(block).unwrap_or(0)
    }

    /// Reads blocks from `first` on, around the end of the ring. The caller bounds `count`.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn read(&self, first: u32, count: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; index(u64::from(count).saturating_mul(u64::from(BLOCK_BYTES)))];
        let before_end = self.blocks.saturating_sub(first).min(count);
        let split = index(before_end).saturating_mul(BLOCK_LEN).min(bytes.len());
        let (head, rest) = bytes.split_at_mut(split);
        self.device
            .read_at(self.byte_of(first), head)
            .map_err(device_failed)?;
        self.device
            .read_at(self.start, rest)
            .map_err(device_failed)?;
        Ok(bytes)
    }

    /// Returns a block. Neighbours are read together with it.
    ///
    /// # Errors
    /// `Corrupt` for a block outside of the log, `Io`.
    pub(super) fn block(&mut self, block: u32) -> Result<[u8; BLOCK_LEN]> {
        if block >= self.blocks {
            return Err(self.corrupt(format_args!("block {block} lies outside of it"), 0));
        }
        let within = block.wrapping_rem(CHUNK_BLOCKS);
        let first = block.saturating_sub(within);
        if self.chunk.as_ref().is_none_or(|(start, _)| *start != first) {
            let count = self.blocks.saturating_sub(first).min(CHUNK_BLOCKS);
            self.chunk = Some((first, self.read(first, count)?));
        }
        let offset = index(within).saturating_mul(BLOCK_LEN);
        let chunk = self.chunk.as_ref().map(|(_, bytes)| bytes.as_slice());
        let bytes = chunk.and_then(|bytes| array(bytes, offset));
        bytes.ok_or_else(|| self.corrupt("a block is missing", block))
    }

    /// Returns the cycle in which a block was written: its first word, or the second one of a
    /// record header, whose magic is no valid cycle.
    ///
    /// # Errors
    /// As for [`block`](Self::block).
    pub(super) fn cycle(&mut self, block: u32) -> Result<u32> {
        let bytes = self.block(block)?;
        let at = if is_header(&bytes) { 4 } else { 0 };
        Ok(be32(&bytes, at).unwrap_or_default())
    }
}

/// Returns true if a block is a record header.
pub(super) fn is_header(block: &[u8]) -> bool {
    part(block, 0, 4) == Some(&RECORD_MAGIC.to_be_bytes()[..])
}
