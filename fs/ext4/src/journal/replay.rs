//! The newest version of each filesystem block in a log.

use diskfs_vfs::Result;

use crate::block::FsBlock;

use super::log::{LogBlock, LogMap};

/// A run of filesystem blocks that are read from elsewhere on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplayedRun {
    /// The first block.
    pub(super) target: FsBlock,
    /// The device block that has the contents of the first block.
    pub(super) source: FsBlock,
    /// The number of blocks.
    pub(super) len_blocks: u32,
    /// True if the log's magic number must be restored at its start. Such a run is a single block.
    pub(super) escaped: bool,
}

/// A transaction, counted from the first one in the log. Unlike sequence numbers, these don't wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransactionIndex(pub(super) u32);

/// A block in the log that belongs to a complete transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoggedBlock {
    pub(super) target: FsBlock,
    pub(super) log: PackedLogBlock,
    pub(super) transaction: TransactionIndex,
}

/// A [`LogBlock`] and whether it is escaped, in four bytes: there may be millions of them. A log
/// has less than 2^31 blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedLogBlock(u32);

impl PackedLogBlock {
    const ESCAPED: u32 = 1 << 31;

    pub(super) const fn new(block: LogBlock, escaped: bool) -> Self {
        Self(block.0 | if escaped { Self::ESCAPED } else { 0 })
    }

    const fn block(self) -> LogBlock {
        LogBlock(self.0 & !Self::ESCAPED)
    }

    const fn escaped(self) -> bool {
        self.0 & Self::ESCAPED != 0
    }
}

/// The newest version of each block in the log, sorted by block.
#[derive(Debug)]
pub(super) struct NewestBlocks {
    blocks: Vec<LoggedBlock>,
    revoked: Vec<bool>,
}

impl NewestBlocks {
    /// Selects the newest versions out of all, which are in the order of the log.
    pub(super) fn new(mut blocks: Vec<LoggedBlock>) -> Self {
        // A later version replaces an earlier one, and the sort is stable.
        blocks.reverse();
        blocks.sort_by_key(|block| block.target);
        blocks.dedup_by_key(|block| block.target);
        let revoked = vec![false; blocks.len()];
        Self { blocks, revoked }
    }

    /// Leaves `target` out unless a transaction after `transaction` contains it. If the newest
    /// version is not newer than the revocation, no other version is.
    pub(super) fn revoke(&mut self, target: FsBlock, transaction: TransactionIndex) {
        if let Ok(at) = self
            .blocks
            .binary_search_by_key(&target, |block| block.target)
            && self
                .blocks
                .get(at)
                .is_some_and(|block| block.transaction <= transaction)
            && let Some(revoked) = self.revoked.get_mut(at)
        {
            *revoked = true;
        }
    }

    /// Returns the remaining blocks as runs.
    pub(super) fn into_runs(self, map: &LogMap) -> Result<Box<[ReplayedRun]>> {
        let mut runs: Vec<ReplayedRun> = Vec::new();
        for (block, _) in self
            .blocks
            .iter()
            .zip(&self.revoked)
            .filter(|(_, revoked)| !**revoked)
        {
            let source = map.device_block(block.log.block())?;
            let escaped = block.log.escaped();
            let run = ReplayedRun {
                target: block.target,
                source,
                len_blocks: 1,
                escaped,
            };
            match runs.last_mut() {
                Some(last) if is_contiguous(last, &run) => {
                    last.len_blocks = last.len_blocks.saturating_add(1);
                }
                _ => runs.push(run),
            }
        }
        Ok(runs.into())
    }
}

fn is_contiguous(last: &ReplayedRun, next: &ReplayedRun) -> bool {
    let len = u64::from(last.len_blocks);
    !last.escaped
        && !next.escaped
        && last.target.after(len) == next.target
        && last.source.after(len) == next.source
}

#[cfg(test)]
mod tests {
    use super::super::log::JournalRun;
    use super::*;

    fn logged(target: u64, log: u32, transaction: u32) -> LoggedBlock {
        let log = PackedLogBlock::new(LogBlock(log), target == 99);
        let transaction = TransactionIndex(transaction);
        LoggedBlock {
            target: FsBlock(target),
            log,
            transaction,
        }
    }

    fn runs(newest: NewestBlocks) -> Vec<(u64, u64, u32)> {
        let run = JournalRun {
            start: FsBlock(1000),
            len_blocks: 100,
        };
        let map = LogMap::of(&[run], 2000).unwrap();
        let runs = newest.into_runs(&map).unwrap();
        runs.iter()
            .map(|run| (run.target.0, run.source.0, run.len_blocks))
            .collect()
    }

    #[test]
    fn the_newest_version_counts() {
        let blocks = vec![
            logged(5, 2, 0),
            logged(4, 3, 0),
            logged(5, 10, 1),
            logged(5, 20, 1),
        ];
        assert_eq!(
            runs(NewestBlocks::new(blocks)),
            [(4, 1003, 1), (5, 1020, 1)]
        );
    }

    #[test]
    fn neighbours_are_one_run_unless_escaped() {
        let blocks = [5, 6, 7, 98, 99, 100].map(|n| logged(n, u32::try_from(n - 3).unwrap(), 0));
        let newest = NewestBlocks::new(blocks.to_vec());
        assert_eq!(
            runs(newest),
            [(5, 1002, 3), (98, 1095, 1), (99, 1096, 1), (100, 1097, 1)]
        );
    }

    #[test]
    fn a_revocation_reaches_back_and_not_forward() {
        let blocks = vec![
            logged(5, 2, 0),
            logged(6, 3, 1),
            logged(7, 4, 1),
            logged(7, 5, 2),
        ];
        let mut newest = NewestBlocks::new(blocks);
        for target in [5, 6, 7, 8] {
            newest.revoke(FsBlock(target), TransactionIndex(1));
        }
        assert_eq!(runs(newest), [(7, 1005, 1)]);
        let mut newest = NewestBlocks::new(vec![logged(6, 3, 1)]);
        newest.revoke(FsBlock(6), TransactionIndex(0));
        assert_eq!(runs(newest), [(6, 1003, 1)]);
    }
}
