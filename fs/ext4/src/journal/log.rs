//! The blocks of the journal: their places on the device, and reading them.

use std::fmt;
use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::Result;

use crate::block::{BlockSize, FsBlock};
use crate::bytes::index;
use crate::error::device_failed;

use super::error::{corrupt_block, corrupt_map};

/// A block of the journal, counted from its superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LogBlock(pub(super) u32);

impl fmt::Display for LogBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of journal blocks that are contiguous on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalRun {
    /// The first block on the device.
    pub(crate) start: FsBlock,
    /// The number of blocks.
    pub(crate) len_blocks: u32,
}

/// A run, with its position in the journal.
#[derive(Debug, Clone, Copy)]
struct PlacedRun {
    first: u32,
    run: JournalRun,
}

/// The places of the journal's blocks.
#[derive(Debug, Clone)]
pub(super) struct LogMap {
    runs: Vec<PlacedRun>,
    len_blocks: u32,
    fs_blocks: u64,
}

impl LogMap {
    /// Returns an empty map. All blocks must be within the filesystem's `fs_blocks`.
    pub(super) const fn new(fs_blocks: u64) -> Self {
        Self {
            runs: Vec::new(),
            len_blocks: 0,
            fs_blocks,
        }
    }

    /// Adds runs of the journal's inode, in order and without holes, until there are `len_blocks`
    /// blocks. Later blocks of the inode are ignored.
    ///
    /// # Errors
    /// `Corrupt` if the inode has fewer blocks.
    pub(super) fn extend(
        &mut self,
        runs: &mut impl Iterator<Item = Result<JournalRun>>,
        len_blocks: u32,
    ) -> Result<()> {
        while self.len_blocks < len_blocks {
            let Some(run) = runs.next() else {
                let found = self.len_blocks;
                return Err(corrupt_map(format_args!(
                    "its superblock counts {len_blocks} blocks, its inode has {found}"
                )));
            };
            self.push(run?)?;
        }
        Ok(())
    }

    fn push(&mut self, run: JournalRun) -> Result<()> {
        let end = run.start.0.checked_add(u64::from(run.len_blocks));
        if end.is_none_or(|end| end > self.fs_blocks) {
            let JournalRun { start, len_blocks } = run;
            return Err(corrupt_map(format_args!(
                "its {len_blocks} blocks from block {start} on are outside of the filesystem"
            )));
        }
        let first = self.len_blocks;
        self.len_blocks = first
            .checked_add(run.len_blocks)
            .ok_or_else(|| corrupt_map("it has more than 2^32 blocks"))?;
        match self.runs.last_mut() {
            Some(last) if last.run.start.after(u64::from(last.run.len_blocks)) == run.start => {
                // No overflow: the sum of all lengths has just been checked.
                last.run.len_blocks = last.run.len_blocks.saturating_add(run.len_blocks);
            }
            _ => self.runs.push(PlacedRun { first, run }),
        }
        Ok(())
    }

    /// Returns the block's place on the device, and how many blocks are contiguous from there,
    /// including itself.
    pub(super) fn run_at(&self, block: LogBlock) -> Result<JournalRun> {
        let behind = self.runs.partition_point(|placed| placed.first <= block.0);
        let placed = behind.checked_sub(1).and_then(|at| self.runs.get(at));
        placed
            .and_then(|placed| {
                let skipped = block.0.checked_sub(placed.first)?;
                let len_blocks = placed.run.len_blocks.checked_sub(skipped)?;
                let start = placed.run.start.after(u64::from(skipped));
                (len_blocks > 0).then_some(JournalRun { start, len_blocks })
            })
            .ok_or_else(|| corrupt_block(block, "it is past the end of the journal"))
    }

    /// Returns the block's place on the device.
    pub(super) fn device_block(&self, block: LogBlock) -> Result<FsBlock> {
        Ok(self.run_at(block)?.start)
    }
}

/// A reader of the journal's blocks, which reads several at once because a log is read in order.
#[derive(Debug)]
pub(super) struct LogReader<'a> {
    device: &'a Arc<dyn BlockRead>,
    map: &'a LogMap,
    block_size: BlockSize,
    buffer: Vec<u8>,
    first: u32,
    len_blocks: u32,
}

/// The number of bytes read at once: enough that the device reads sequentially.
const STRETCH_BYTES: u32 = 256 << 10;

impl<'a> LogReader<'a> {
    pub(super) fn new(
        device: &'a Arc<dyn BlockRead>,
        map: &'a LogMap,
        block_size: BlockSize,
    ) -> Self {
        Self {
            device,
            map,
            block_size,
            buffer: Vec::new(),
            first: 0,
            len_blocks: 0,
        }
    }

    /// Returns a block's bytes.
    pub(super) fn block(&mut self, block: LogBlock) -> Result<&[u8]> {
        let at = match block.0.checked_sub(self.first) {
            Some(at) if at < self.len_blocks => at,
            _ => {
                self.load(block)?;
                0
            }
        };
        let size = self.block_size.len();
        let start = index(at).saturating_mul(size);
        let bytes = self.buffer.get(start..start.saturating_add(size));
        bytes.ok_or_else(|| corrupt_block(block, "cannot read it"))
    }

    fn load(&mut self, block: LogBlock) -> Result<()> {
        self.len_blocks = 0;
        let run = self.map.run_at(block)?;
        let stretch = STRETCH_BYTES.wrapping_shr(self.block_size.bits());
        let len_blocks = run.len_blocks.min(stretch);
        let len = index(self.block_size.bytes_of(u64::from(len_blocks)));
        if self.buffer.len() < len {
            // Not `resize`, which is slow where the compiler does not optimise: most of the time of
            // the tests that replay a journal.
            self.buffer = vec![0; len];
        }
        let bytes = self.buffer.get_mut(..len).unwrap_or_default();
        self.device
            .read_at(self.block_size.byte_of(run.start), bytes)
            .map_err(device_failed)?;
        self.first = block.0;
        self.len_blocks = len_blocks;
        Ok(())
    }
}

#[cfg(test)]
impl LogMap {
    /// Returns the map of these runs.
    pub(super) fn of(runs: &[JournalRun], fs_blocks: u64) -> Result<Self> {
        let mut map = Self::new(fs_blocks);
        for run in runs {
            map.push(*run)?;
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;

    use super::*;

    fn run(start: u64, len_blocks: u32) -> JournalRun {
        JournalRun {
            start: FsBlock(start),
            len_blocks,
        }
    }

    #[test]
    fn blocks_are_found_in_their_runs() {
        let map = LogMap::of(&[run(10, 2), run(12, 3), run(5, 1)], 20).unwrap();
        assert_eq!(map.len_blocks, 6);
        assert_eq!(map.runs.len(), 2, "neighbours are one run");
        assert_eq!(map.device_block(LogBlock(4)).unwrap(), FsBlock(14));
        assert_eq!(map.device_block(LogBlock(5)).unwrap(), FsBlock(5));
        assert!(map.device_block(LogBlock(6)).is_err());
        assert!(
            LogMap::of(&[], 20)
                .unwrap()
                .device_block(LogBlock(0))
                .is_err()
        );
    }

    #[test]
    fn runs_stay_within_the_filesystem() {
        assert!(LogMap::of(&[run(10, 11)], 20).is_err());
        assert!(LogMap::of(&[run(u64::MAX, 2)], u64::MAX).is_err());
        assert!(LogMap::of(&[run(0, u32::MAX), run(0, 1)], u64::MAX).is_err());
    }

    #[test]
    fn reads_across_runs() {
        let size = BlockSize::from_log(0).unwrap();
        let bytes: Vec<u8> = (0..20u8).flat_map(|n| vec![n; 1024]).collect();
        let device: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes));
        let map = LogMap::of(&[run(10, 2), run(3, 2)], 20).unwrap();
        let mut reader = LogReader::new(&device, &map, size);
        for (block, value) in [(0, 10), (3, 4), (1, 11), (2, 3), (0, 10)] {
            let bytes = reader.block(LogBlock(block)).unwrap();
            assert_eq!(bytes, vec![value; 1024]);
        }
        assert!(reader.block(LogBlock(4)).is_err());
    }
}
