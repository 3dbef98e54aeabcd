//! Runs of a file's blocks, and the cached lists of them.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::block::{FileBlock, FsBlock};
use crate::bytes::len_u64;
use crate::error::Result;

/// Contiguous blocks of a file that are contiguous on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) file_block: FileBlock,
    pub(crate) fs_block: FsBlock,
    /// The length; never zero.
    pub(crate) len_blocks: u32,
    /// True for data; false if the run is allocated but unwritten, and reads as zeroes.
    pub(crate) written: bool,
}

impl Run {
    /// Returns the file block after the last one. It may be 2^32, which no block has.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.file_block.0).saturating_add(u64::from(self.len_blocks))
    }

    /// Returns the part at or after `from`.
    pub(crate) fn starting_at(self, from: FileBlock) -> Option<Self> {
        let skipped = from.0.saturating_sub(self.file_block.0);
        let len_blocks = self
            .len_blocks
            .checked_sub(skipped)
            .filter(|&len| len > 0)?;
        Some(Self {
            file_block: FileBlock(self.file_block.0.saturating_add(skipped)),
            fs_block: self.fs_block.after(u64::from(skipped)),
            len_blocks,
            written: self.written,
        })
    }

    /// Returns the part before file block `end`.
    pub(crate) fn ending_at(self, end: u64) -> Option<Self> {
        let left = end
            .checked_sub(u64::from(self.file_block.0))
            .filter(|&len| len > 0)?;
        let len_blocks = u32::try_from(left).unwrap_or(u32::MAX).min(self.len_blocks);
        Some(Self { len_blocks, ..self })
    }

    /// Extends the run by `next` if that follows it in the file and on the device. Returns true if
    /// it did.
    pub(crate) fn absorb(&mut self, next: &Self) -> bool {
        let follows = self.end() == u64::from(next.file_block.0)
            && self.fs_block.after(u64::from(self.len_blocks)) == next.fs_block
            && self.written == next.written;
        match self.len_blocks.checked_add(next.len_blocks) {
            Some(len_blocks) if follows => {
                self.len_blocks = len_blocks;
                true
            }
            _ => false,
        }
    }
}

/// The cache of the lists of runs of files, with a budget in bytes.
#[derive(Debug)]
pub(crate) struct FileMaps {
    lists: Cache<u32, Option<Arc<[Run]>>, ByBytes>,
}

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl Weighter<u32, Option<Arc<[Run]>>> for ByBytes {
    fn weight(&self, _: &u32, list: &Option<Arc<[Run]>>) -> u64 {
        /// The memory for an entry besides its runs: key, pointer, counters, overhead of the cache.
        const ENTRY_BYTES: u64 = 64;
        let runs = list.as_deref().unwrap_or_default();
        len_u64(size_of_val(runs)).saturating_add(ENTRY_BYTES)
    }
}

impl FileMaps {
    /// Returns an empty cache that keeps about `budget_bytes`.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        /// The average size of an entry: most files have one run.
        const TYPICAL_BYTES: u64 = 128;
        let items = usize::try_from(budget_bytes.wrapping_div(TYPICAL_BYTES)).unwrap_or(usize::MAX);
        Self {
            lists: Cache::with_weighter(items, budget_bytes, ByBytes),
        }
    }

    /// Returns the list of an inode; `make` creates it if it is not cached. Returns `None` for an
    /// inode with too many runs.
    ///
    /// # Errors
    /// Returns the errors of `make`.
    pub(crate) fn get_or_make(
        &self,
        inode: u32,
        make: impl FnOnce() -> Result<Option<Arc<[Run]>>>,
    ) -> Result<Option<Arc<[Run]>>> {
        self.lists.get_or_insert_with(&inode, make)
    }

    /// Drops the list of an inode, whose runs have changed.
    pub(crate) fn forget(&self, inode: u32) {
        self.lists.remove(&inode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file_block: u32, fs_block: u64, len_blocks: u32) -> Run {
        Run {
            file_block: FileBlock(file_block),
            fs_block: FsBlock(fs_block),
            len_blocks,
            written: true,
        }
    }

    #[test]
    fn a_run_is_cut_at_both_ends() {
        let r = run(10, 100, 5);
        assert_eq!(r.starting_at(FileBlock(3)), Some(r));
        assert_eq!(r.starting_at(FileBlock(12)), Some(run(12, 102, 3)));
        assert_eq!(r.starting_at(FileBlock(15)), None);
        assert_eq!(r.ending_at(12), Some(run(10, 100, 2)));
        assert_eq!(r.ending_at(10), None);
        assert_eq!(r.ending_at(u64::MAX), Some(r));
        assert_eq!(run(u32::MAX, 1, 1).end(), 1 << 32);
    }

    #[test]
    fn neighbours_join_only_when_contiguous_in_both() {
        let mut r = run(0, 100, 5);
        assert!(!r.absorb(&run(6, 105, 1)));
        assert!(!r.absorb(&run(5, 106, 1)));
        let unwritten = Run {
            written: false,
            ..run(5, 105, 1)
        };
        assert!(!r.absorb(&unwritten));
        assert!(r.absorb(&run(5, 105, 2)));
        assert_eq!(r, run(0, 100, 7));
    }
}
