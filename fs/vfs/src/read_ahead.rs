//! Read-ahead hints for sequential readers.

use crate::{FsRead, InodeNumber};

/// The distance of read-ahead. Four requests of the size that copies use (1 MiB): enough for a
/// device with a queue, small compared to any cache.
const READ_AHEAD_BYTES: u64 = 4 << 20;

/// The part of a file that was announced to the filesystem.
#[derive(Debug, Clone, Copy)]
pub struct ReadAhead {
    announced: u64,
}

impl ReadAhead {
    /// Returns a state for a reader at byte `offset`, with nothing announced.
    pub const fn at(offset: u64) -> Self {
        Self { announced: offset }
    }

    /// Announces the stretch after the next read, which ends at `end_of_read`, when half of the
    /// last stretch is used up. The reader stops at byte `end`: a read up to there is not worth a
    /// hint.
    pub fn before_read(&mut self, fs: &dyn FsRead, inode: InodeNumber, end_of_read: u64, end: u64) {
        let ahead = self.announced.saturating_sub(end_of_read);
        if end_of_read >= end || ahead > READ_AHEAD_BYTES / 2 {
            return;
        }
        let from = self.announced.max(end_of_read);
        let to = end_of_read.saturating_add(READ_AHEAD_BYTES).min(end);
        if from < to {
            fs.will_need(inode, from, to.saturating_sub(from));
            self.announced = to;
        }
    }
}
