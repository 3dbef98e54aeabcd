//! Appending blocks to the log in few large writes.

use crate::block::BlockSize;
use crate::error::Result;

use super::log::{LogBlock, LogMap};

/// The number of bytes written at once.
const PIECE_BYTES: usize = 1 << 20;

/// The log's blocks, and where it wraps around.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogArea<'a> {
    pub(super) map: &'a LogMap,
    pub(super) block_size: BlockSize,
    pub(super) first: LogBlock,
    /// The block after the last one of the log.
    pub(super) end: LogBlock,
}

/// A buffer of appended blocks. It passes blocks that are contiguous on the device to `write`.
#[derive(Debug)]
pub(super) struct LogAppender<'a, W> {
    area: LogArea<'a>,
    write: W,
    /// The place of the first block of `pending`.
    start: LogBlock,
    pending: Vec<u8>,
    /// The place of the next block.
    at: LogBlock,
    appended: u32,
}

impl<'a, W: FnMut(u64, &[u8]) -> Result<()>> LogAppender<'a, W> {
    /// Returns an appender that begins at `at`. `write` gets a byte offset of the device and the
    /// bytes for it.
    pub(super) fn new(area: LogArea<'a>, at: LogBlock, write: W) -> Self {
        Self {
            area,
            write,
            start: at,
            pending: Vec::new(),
            at,
            appended: 0,
        }
    }

    /// Appends a block, whose length is the block size. Its first bytes are replaced by `head`.
    ///
    /// # Errors
    /// Returns the errors of `write`.
    pub(super) fn append(&mut self, block: &[u8], head: &[u8]) -> Result<()> {
        self.pending.extend_from_slice(head);
        let rest = block.get(head.len()..).unwrap_or_default();
        self.pending.extend_from_slice(rest);
        self.appended = self.appended.saturating_add(1);
        let next = LogBlock(self.at.0.saturating_add(1));
        self.at = if next >= self.area.end {
            self.area.first
        } else {
            next
        };
        if self.at != next || self.pending.len() >= PIECE_BYTES {
            self.write_pending()?;
        }
        Ok(())
    }

    /// Returns the place of the next block.
    pub(super) const fn next(&self) -> LogBlock {
        self.at
    }

    fn write_pending(&mut self) -> Result<()> {
        let mut at = self.start;
        let mut left = self.pending.as_slice();
        while !left.is_empty() {
            let run = self.area.map.run_at(at)?;
            let len_bytes = self.area.block_size.bytes_of(u64::from(run.len_blocks));
            let len = crate::bytes::index(len_bytes).min(left.len());
            // `len` is at most the length of the rest.
            let (now, rest) = left.split_at_checked(len).unwrap_or((left, &[]));
            (self.write)(self.area.block_size.byte_of(run.start), now)?;
            left = rest;
            at = LogBlock(at.0.saturating_add(run.len_blocks));
        }
        self.pending.clear();
        self.start = self.at;
        Ok(())
    }

    /// Writes the remaining blocks. Returns the place of the next block, and the number of appended
    /// blocks.
    ///
    /// # Errors
    /// Returns the errors of `write`.
    pub(super) fn finish(mut self) -> Result<(LogBlock, u32)> {
        self.write_pending()?;
        Ok((self.at, self.appended))
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::JournalRun;
    use super::*;
    use crate::block::FsBlock;

    #[test]
    fn goes_round_and_across_runs() {
        let run = |start, len_blocks| JournalRun {
            start: FsBlock(start),
            len_blocks,
        };
        let map = LogMap::of(&[run(10, 3), run(20, 3)], 30).unwrap();
        let area = LogArea {
            map: &map,
            block_size: BlockSize::from_log(0).unwrap(),
            first: LogBlock(1),
            end: LogBlock(6),
        };
        let mut written = Vec::new();
        let mut appender = LogAppender::new(area, LogBlock(2), |at, bytes: &[u8]| {
            let firsts: Vec<u8> = bytes.chunks(1024).map(|block| block[0]).collect();
            written.push((at / 1024, firsts));
            Ok(())
        });
        for n in 0..6 {
            appender.append(&[n; 1024], &[]).unwrap();
        }
        appender.append(&[9; 1024], &[7]).unwrap();
        assert_eq!(appender.finish().unwrap(), (LogBlock(4), 7));
        let want = [
            (12, vec![0]),
            (20, vec![1, 2, 3]),
            (11, vec![4, 5]),
            (20, vec![7]),
        ];
        assert_eq!(written, want);
    }
}
