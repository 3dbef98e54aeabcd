//! The entries of a file, in order.

use std::sync::Arc;

use diskfs_block::{Error, Result};

use crate::Entry;
use crate::chain::Chain;
use crate::reader::Reader;

/// The entries of a journal file, oldest first, and newest first from the other end.
///
/// A broken entry is an error in its place. A broken chain of entries ends with an error, which comes last from
/// either end.
#[derive(Debug)]
pub struct Entries {
    reader: Arc<Reader>,
    chain: Chain,
    /// The numbers of what is left.
    front: u64,
    back: u64,
    /// Where in the file that may lie: entries lie in their order, so none comes twice.
    low: u64,
    high: u64,
}

impl Entries {
    pub(crate) fn new(reader: Arc<Reader>) -> Self {
        let header = &reader.header;
        let chain = Chain::read(&reader, header.entry_array_offset, header.entry_count);
        Self {
            front: 0,
            back: chain.count,
            low: 0,
            high: reader.size_bytes(),
            chain,
            reader,
        }
    }

    /// How many entries are left, broken ones included.
    pub fn remaining(&self) -> u64 {
        self.back.saturating_sub(self.front)
    }

    /// Goes on behind all entries that were logged before this time, in microseconds since 1970: with few reads, by
    /// halves, for entries that can be read and lie in the order of their times. Where a clock was set back, some may
    /// be passed over, as by journalctl.
    pub fn skip_before(&mut self, realtime_us: u64) {
        let (mut low, mut high) = (self.front, self.back);
        while low < high {
            let middle = low.midpoint(high);
            match self.at(middle) {
                Ok(entry) if entry.realtime_us >= realtime_us => high = middle,
                Ok(_) => low = middle.saturating_add(1),
                // What can't be read tells nothing: nothing is passed over.
                Err(_) => return,
            }
        }
        self.front = low;
    }

    /// The same from the other end: passes over all entries that were logged after this time.
    pub fn skip_after(&mut self, realtime_us: u64) {
        let (mut low, mut high) = (self.front, self.back);
        while low < high {
            let middle = low.midpoint(high);
            match self.at(middle) {
                Ok(entry) if entry.realtime_us > realtime_us => high = middle,
                Ok(_) => low = middle.saturating_add(1),
                Err(_) => return,
            }
        }
        self.back = low;
    }

    fn at(&self, number: u64) -> Result<Entry> {
        let offset = self.chain.item(&self.reader, number)?;
        Entry::read(&self.reader, offset)
    }

    /// The entry, if it lies where it may.
    fn within(&self, number: u64) -> Result<Entry> {
        let entry = self.at(number)?;
        if entry.offset() < self.low || entry.end() > self.high {
            return Err(Error::corrupt("an entry out of order").at(entry.offset()));
        }
        Ok(entry)
    }

    fn end(&mut self) -> Option<Result<Entry>> {
        self.chain.problem.take().map(Err)
    }

    /// Whether there is an item of that number. None in the middle of others ends what there is.
    fn is_used(&mut self, number: u64) -> bool {
        let is_used = !matches!(self.chain.item(&self.reader, number), Ok(0));
        if !is_used {
            self.front = self.back;
            let error = Error::corrupt("an entry array with a hole");
            self.chain.problem.get_or_insert(error);
        }
        is_used
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.front >= self.back || !self.is_used(self.front) {
            return self.end();
        }
        let entry = self.within(self.front);
        self.front = self.front.saturating_add(1);
        if let Ok(entry) = &entry {
            self.low = entry.end();
        }
        Some(entry)
    }
}

impl DoubleEndedIterator for Entries {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back || !self.is_used(self.back.saturating_sub(1)) {
            return self.end();
        }
        self.back = self.back.saturating_sub(1);
        let entry = self.within(self.back);
        if let Ok(entry) = &entry {
            self.high = entry.offset();
        }
        Some(entry)
    }
}
