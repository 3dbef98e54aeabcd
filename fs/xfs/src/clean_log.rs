//! A quick look at the end of the log: most filesystems are cleanly unmounted, and then nothing else
//! of the log need be read.
//!
//! The end is where the cycle of the blocks falls: usually soon after the superblock was written to
//! the log, otherwise it is searched. If the record of an unmount ends there, the log
//! is clean. Records after a gap, which a crash leaves if it stops several writes, do not count, so
//! the gap itself need not be searched. In any other case the whole search and replay decides.
//!
//! Source: "XFS Algorithms & Data Structures", section "Journaling Log".

use diskfs_block::BlockRead;

use crate::bytes::{array, be32, index, part};
use crate::error::{Result, device_failed};
use crate::superblock::{BASIC_BLOCK_BYTES, Superblock};

/// `XLOG_HEADER_MAGIC_NUM`.
const MAGIC: [u8; 4] = 0xfeed_babe_u32.to_be_bytes();
/// The size of a block of the log as a length in memory.
const BLOCK_LEN: usize = 512;
/// The number of blocks that are read before the end: an unmount has a header and one more block,
/// or a few more with large log buffers.
const BLOCKS_BEFORE_END: u64 = 32;
/// The number of blocks after the superblock's that are searched for the end.
const BLOCKS_AFTER_SUPERBLOCK: u64 = 128;
/// The number of blocks that one probe reads.
const PROBE_BLOCKS: u64 = 8;
/// `XLOG_UNMOUNT_TRANS`, in the flags of an operation.
const UNMOUNT: u8 = 0x20;

/// The place of the log.
struct Log<'a> {
    device: &'a dyn BlockRead,
    start: u64,
    blocks: u64,
}

/// Returns true if the log certainly is clean.
///
/// # Errors
/// `Io`.
pub(crate) fn ends_with_unmount(device: &dyn BlockRead, superblock: &Superblock) -> Result<bool> {
    let Some(start) = superblock
        .log_start
        .and_then(|start| superblock.byte_of(start))
    else {
        return Ok(false);
    };
    let len = superblock.bytes_of(superblock.log_blocks.into());
    let log = Log {
        device,
        start,
        blocks: len.wrapping_div(BASIC_BLOCK_BYTES),
    };
    if let Some(bytes) = log.after_superblock(superblock.lsn)?
        && is_unmount(&bytes, superblock) == Some(true)
    {
        return Ok(true);
    }
    let Some(end) = log.end()? else {
        return Ok(false);
    };
    let first = end.saturating_sub(BLOCKS_BEFORE_END);
    let bytes = log.read(first, end.saturating_sub(first))?;
    Ok(is_unmount(&bytes, superblock) == Some(true))
}

impl Log<'_> {
    fn read(&self, first: u64, blocks: u64) -> Result<Vec<u8>> {
        let bytes_of = |blocks: u64| blocks.saturating_mul(BASIC_BLOCK_BYTES);
        let mut bytes = vec![0; index(bytes_of(blocks))];
        let at = self.start.saturating_add(bytes_of(first));
        self.device.read_at(at, &mut bytes).map_err(device_failed)?;
        Ok(bytes)
    }

    /// Returns the blocks from the last change of the superblock up to the end of the log, if that
    /// is near: an unmount writes the superblock, and its record soon after.
    fn after_superblock(&self, lsn: u64) -> Result<Option<Vec<u8>>> {
        /// The low half of an LSN, its block.
        const BLOCK_MASK: u64 = 0xffff_ffff;
        let first = lsn & BLOCK_MASK;
        let count = self
            .blocks
            .saturating_sub(first)
            .min(BLOCKS_AFTER_SUPERBLOCK);
        if lsn == 0 || count == 0 {
            return Ok(None);
        }
        let mut bytes = self.read(first, count)?;
        let new = cycle(&bytes);
        let blocks = bytes.chunks(BLOCK_LEN);
        let written = blocks.take_while(|block| cycle(block) == new).count();
        let end = written.saturating_mul(BLOCK_LEN);
        let old = bytes.get(end..).filter(|rest| !rest.is_empty()).map(cycle);
        if u64::from(new) != lsn.wrapping_shr(32) || old != new.checked_sub(1) {
            return Ok(None);
        }
        bytes.truncate(end);
        Ok(Some(bytes))
    }

    /// Returns the first block of an older cycle than the block before it; `None` if all blocks
    /// have the same cycle.
    fn end(&self) -> Result<Option<u64>> {
        let last_probe = self.blocks.saturating_sub(PROBE_BLOCKS);
        let first = self.read(0, PROBE_BLOCKS)?;
        let last = self.read(last_probe, PROBE_BLOCKS)?;
        let old = last.chunks(BLOCK_LEN).next_back().map_or(0, cycle);
        if cycle(&first) == old {
            return Ok(None);
        }
        // The first probe begins with the new cycle, and the last one ends with the old cycle.
        let (mut low, mut high) = (0_u64, self.blocks.wrapping_div(PROBE_BLOCKS));
        while low.saturating_add(1) < high {
            let middle = low.midpoint(high);
            let probe = self.read(middle.saturating_mul(PROBE_BLOCKS), PROBE_BLOCKS)?;
            if cycle(&probe) == old {
                high = middle;
            } else {
                low = middle;
            }
        }
        let start = low.saturating_mul(PROBE_BLOCKS);
        let probe = self.read(start, PROBE_BLOCKS.min(self.blocks.saturating_sub(start)))?;
        let new = probe
            .chunks(BLOCK_LEN)
            .take_while(|block| cycle(block) != old);
        let count = u64::try_from(new.count()).unwrap_or(u64::MAX);
        Ok(Some(start.saturating_add(count)).filter(|end| *end < self.blocks))
    }
}

/// Returns the cycle of a block.
fn cycle(block: &[u8]) -> u32 {
    let offset = if block.starts_with(&MAGIC) { 4 } else { 0 };
    be32(block, offset).unwrap_or(0)
}

/// Returns true if the last record in `bytes` ends where they end, and is that of an unmount.
fn is_unmount(bytes: &[u8], superblock: &Superblock) -> Option<bool> {
    /// The size of log buffers for which one block of header is enough.
    const BUFFER_BYTES: u32 = 32 << 10;
    let mut blocks = bytes.chunks(BLOCK_LEN);
    let nth = blocks.rposition(|block| block.starts_with(&MAGIC))?;
    let header = part(bytes, nth.checked_mul(BLOCK_LEN)?, BLOCK_LEN)?;
    let (version, len) = (be32(header, 8)?, index(be32(header, 12)?));
    let (operations, buffer_bytes) = (be32(header, 40)?, be32(header, 320)?);
    let header_blocks = if version & 2 != 0 {
        index(buffer_bytes.div_ceil(BUFFER_BYTES)).max(1)
    } else {
        1
    };
    let payload = nth.checked_add(header_blocks)?;
    let end = payload.checked_add(len.div_ceil(BLOCK_LEN))?;
    let [flags] = array(bytes, payload.checked_mul(BLOCK_LEN)?.checked_add(9)?)?;
    let is_ours = part(header, 304, superblock.uuid.len()) == Some(&superblock.uuid);
    let ends_here = end.checked_mul(BLOCK_LEN)? == bytes.len();
    Some(is_ours && ends_here && operations == 1 && flags & UNMOUNT != 0)
}
