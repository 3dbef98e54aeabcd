//! The policy of fetching more than what a caller reads: the neighbourhood of scattered reads, and
//! what follows reads in order.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::blocks::BLOCK_BYTES;

/// The number of blocks of the first request near a place, and of the last ones: 256 KiB, 1 MiB.
const FEWEST_BLOCKS: u64 = (256 << 10) / BLOCK_BYTES;
const MOST_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES;

/// The number of blocks of a zone, 8 MiB. Each request in a zone is twice as long as the one before:
/// where a filesystem has its inode tables and directories, many small reads follow.
const ZONE_BLOCKS: u64 = (8 << 20) / BLOCK_BYTES;

/// The number of zones that are remembered.
const ZONES: usize = 4096;

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
    zones: Mutex<HashMap<u64, u32>>,
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
    /// Returns the run to fetch for a missing block of a read that ends before block `end`: the
    /// missing blocks around it.
    pub(crate) fn around(
        &self,
        block: u64,
        end: u64,
        count: u64,
        is_missing: &dyn Fn(u64) -> bool,
    ) -> Range<u64> {
        let len = self.neighbourhood(block);
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
        run
    }

    /// Returns the number of blocks of the next request in the zone of a block.
    fn neighbourhood(&self, block: u64) -> u64 {
        let zone = block.checked_div(ZONE_BLOCKS).unwrap_or(0);
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        if zones.len() >= ZONES {
            zones.clear();
        }
        let requests = zones.entry(zone).or_default();
        let doublings = *requests;
        *requests = requests.saturating_add(1);
        let len = FEWEST_BLOCKS.checked_shl(doublings).unwrap_or(MOST_BLOCKS);
        len.clamp(FEWEST_BLOCKS, MOST_BLOCKS)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_a_zone_grow() {
        let policy = ReadAhead::default();
        let missing = |_: u64| true;
        let lens: Vec<_> = [5, 20, 40, 70, 90]
            .map(|block| policy.around(block, block + 1, 1 << 20, &missing))
            .into_iter()
            .map(|run| run.end - run.start)
            .collect();
        assert_eq!(lens, [4, 8, 16, 16, 16]);
        let far = policy.around(100_000, 100_001, 1 << 20, &missing);
        assert_eq!(far, 100_000..100_004);
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
