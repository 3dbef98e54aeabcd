//! The policy of fetching more than what a caller reads: the neighbourhood of scattered reads, and
//! what follows reads in order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::blocks::BLOCK_BYTES;

/// The number of blocks of the first request near a place, and of the last ones: 256 KiB, 1 MiB.
const FEWEST_BLOCKS: u64 = (256 << 10) / BLOCK_BYTES;
const MOST_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES;

/// The largest gap between a request and an earlier one that is near, in lengths of the earlier one.
/// A request near an earlier one is twice as long: where a filesystem has its inode tables and
/// directories, many small reads follow.
const NEAR_LENGTHS: u64 = 2;

/// The numbers of blocks before and after a block between which the requests near it begin. The
/// longest request, for a long read, has `MOST_BLOCKS + REQUEST_BLOCKS` blocks.
const REACH_BEFORE: u64 = NEAR_LENGTHS * MOST_BLOCKS + MOST_BLOCKS + REQUEST_BLOCKS;
const REACH_AFTER: u64 = NEAR_LENGTHS * MOST_BLOCKS + 1;

/// The number of earlier requests that are remembered.
const REMEMBERED: usize = 4096;

/// The number of places where callers read in order.
const STREAMS: usize = 16;

/// The number of reads that continue the one before until a stream is read ahead. Scattered reads of
/// an area do so once by chance, and the neighbourhood of the first two has what the third reads.
const CONTINUED: u8 = 2;

/// The blocks that are read ahead of a stream at first, and at most: 512 KiB, 8 MiB.
const FIRST_WINDOW: u64 = (512 << 10) / BLOCK_BYTES;
const LAST_WINDOW: u64 = (8 << 20) / BLOCK_BYTES;

/// The number of blocks of the longest request: 4 MiB.
pub(crate) const REQUEST_BLOCKS: u64 = (4 << 20) / BLOCK_BYTES;

/// The policy of one device.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// The earlier requests of scattered reads: the first block of each, and its end.
    fetched: Mutex<BTreeMap<u64, u64>>,
    streams: Mutex<Vec<Stream>>,
}

/// A place where a caller reads in order.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The block that the next read begins in.
    next: u64,
    /// The end of the blocks that were read ahead.
    ahead: u64,
    window: u64,
    /// The number of reads that continued the one before, up to [`CONTINUED`].
    continued: u8,
}

impl ReadAhead {
    /// Returns the policy of a device whose first blocks are there, up to block `end`.
    pub(crate) fn after(end: u64) -> Self {
        let policy = Self::default();
        policy.remember(0..end);
        policy
    }

    /// Returns the run to fetch for a missing block of a read that ends before block `end`: the
    /// missing blocks around it.
    pub(crate) fn around(
        &self,
        block: u64,
        end: u64,
        count: u64,
        is_missing: &dyn Fn(u64) -> bool,
    ) -> Range<u64> {
        let len = neighbourhood(&self.fetched(), block);
        let start = block.checked_div(len).unwrap_or(0).saturating_mul(len);
        let limit = block.saturating_add(REQUEST_BLOCKS).min(count);
        let stop = start.saturating_add(len).max(end).min(limit);
        let mut run = block..block.saturating_add(1);
        while run.start > start && is_missing(run.start.saturating_sub(1)) {
            run.start = run.start.saturating_sub(1);
        }
        while run.end < stop && is_missing(run.end) {
            run.end = run.end.saturating_add(1);
        }
        self.remember(run.clone());
        run
    }

    fn remember(&self, run: Range<u64>) {
        let mut fetched = self.fetched();
        if fetched.len() >= REMEMBERED {
            fetched.clear();
        }
        fetched.insert(run.start, run.end);
    }

    fn fetched(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a read. Returns the blocks to read ahead, if it continues earlier ones.
    pub(crate) fn note(&self, blocks: &Range<u64>, count: u64) -> Option<Range<u64>> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let continues = |stream: &Stream| {
            blocks.start == stream.next || blocks.start.saturating_add(1) == stream.next
        };
        let Some(at) = streams.iter().position(continues) else {
            if streams.len() >= STREAMS {
                streams.remove(0);
            }
            streams.push(Stream {
                next: blocks.end,
                ahead: blocks.end,
                window: 0,
                continued: 0,
            });
            return None;
        };
        let mut stream = streams.remove(at);
        if blocks.end == stream.next {
            // A further read of the same block.
            streams.push(stream);
            return None;
        }
        stream.next = blocks.end;
        stream.ahead = stream.ahead.max(blocks.end);
        stream.continued = stream.continued.saturating_add(1).min(CONTINUED);
        let left = stream.ahead.saturating_sub(blocks.end);
        let mut ahead = None;
        if stream.continued >= CONTINUED && left <= stream.window.wrapping_div(2) {
            let doubled = stream.window.saturating_mul(2);
            stream.window = doubled.clamp(FIRST_WINDOW, LAST_WINDOW);
            let end = blocks.end.saturating_add(stream.window).min(count);
            ahead = (stream.ahead < end).then_some(stream.ahead..end);
            stream.ahead = stream.ahead.max(end);
        }
        streams.push(stream);
        ahead
    }
}

/// Returns the number of blocks of the request for a block: a power of two.
fn neighbourhood(fetched: &BTreeMap<u64, u64>, block: u64) -> u64 {
    let reach = block.saturating_sub(REACH_BEFORE)..=block.saturating_add(REACH_AFTER);
    let doubled = fetched.range(reach).filter_map(|(&start, &end)| {
        let len = end.saturating_sub(start).clamp(FEWEST_BLOCKS, MOST_BLOCKS);
        let next = block.saturating_add(1);
        let gap = start.saturating_sub(next).max(block.saturating_sub(end));
        (gap <= len.saturating_mul(NEAR_LENGTHS)).then(|| len.saturating_mul(2))
    });
    let len = doubled.max().unwrap_or(FEWEST_BLOCKS).min(MOST_BLOCKS);
    1 << len.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_grow_near_earlier_ones() {
        let policy = ReadAhead::default();
        let missing = |_: u64| true;
        let lens: Vec<_> = [5, 10, 20, 40, 70, 200]
            .map(|block| policy.around(block, block + 1, 1 << 20, &missing))
            .into_iter()
            .map(|run| run.end - run.start)
            .collect();
        assert_eq!(lens, [4, 8, 16, 16, 16, 4]);
        let before = policy.around(193, 194, 1 << 20, &missing);
        assert_eq!(before, 192..200);
        let policy = ReadAhead::after(2);
        assert_eq!(policy.around(3, 4, 1 << 20, &|block| block >= 2), 2..8);
        // What is there is not fetched again, and a long read is one request.
        assert_eq!(policy.around(7, 8, 1 << 20, &|block| block == 7), 7..8);
        assert_eq!(policy.around(400, 430, 1 << 20, &missing).end, 430);
        assert_eq!(policy.around(400, 4000, 410, &missing).end, 410);
    }

    #[test]
    fn reads_in_order_are_read_ahead() {
        let policy = ReadAhead::default();
        assert_eq!(policy.note(&(0..2), 1000), None);
        assert_eq!(policy.note(&(500..502), 1000), None);
        assert_eq!(policy.note(&(2..4), 1000), None, "it may be chance");
        let first = policy.note(&(4..6), 1000).unwrap();
        assert_eq!(first, 6..6 + FIRST_WINDOW);
        assert_eq!(policy.note(&(5..6), 1000), None, "the same block again");
        assert_eq!(
            policy.note(&(6..8), 1000),
            None,
            "most of it is still ahead"
        );
        let second = policy.note(&(8..12), 1000).unwrap();
        assert_eq!(second.start, first.end);
        assert_eq!(policy.note(&(502..503), 504), None);
        assert_eq!(policy.note(&(503..504), 504), None, "the object ends there");
        for block in 0..1000 {
            policy.note(&(block * 7..block * 7 + 1), 10_000);
        }
        assert!(policy.streams.lock().unwrap().len() <= STREAMS);
    }
}
