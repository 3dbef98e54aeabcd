//! Iteration over the entries of a file.

use std::sync::Arc;

use diskfs_block::{Error, Result};

use crate::Entry;
use crate::chain::Chain;
use crate::reader::Reader;

/// An iterator over the entries of a journal file, from the oldest. With [`rev`](Iterator::rev) or
/// [`next_back`](DoubleEndedIterator::next_back), from the newest.
///
/// A broken entry yields an error in its position. If the chain of entry arrays is broken, the
/// iterator yields the valid entries first and then, as its last item from either end, an error.
#[derive(Debug)]
pub struct Entries {
    reader: Arc<Reader>,
    chain: Chain,
    /// The numbers of the first remaining entry and of the one after the last.
    front: u64,
    back: u64,
    /// The part of the file for the remaining entries. Entries are in order in the file, so none
    /// can be returned twice.
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

    /// Returns the number of remaining entries, including broken ones.
    pub fn remaining(&self) -> u64 {
        self.back.saturating_sub(self.front)
    }

    /// Skips all entries that were logged before this time, in microseconds since 1970. Uses binary
    /// search, so the entries must be readable and sorted by time. Where the clock was set back,
    /// some later entries may be skipped, too, as in journalctl.
    pub fn skip_before(&mut self, realtime_us: u64) {
        let (mut low, mut high) = (self.front, self.back);
        while low < high {
            let middle = low.midpoint(high);
            match self.at(middle) {
                Ok(entry) if entry.realtime_us >= realtime_us => high = middle,
                Ok(_) => low = middle.saturating_add(1),
                // An unreadable entry has no known time, so skip nothing.
                Err(_) => return,
            }
        }
        self.front = low;
    }

    /// Skips from the end all entries that were logged after this time, as
    /// [`skip_before`](Self::skip_before) does from the start.
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

    /// Returns the entry if it is within the part of the file for the remaining entries.
    fn within(&self, number: u64) -> Result<Entry> {
        let entry = self.at(number)?;
        if entry.offset() < self.low || entry.end() > self.high {
            return Err(Error::corrupt("invalid entry: it is out of order").at(entry.offset()));
        }
        Ok(entry)
    }

    fn end(&mut self) -> Option<Result<Entry>> {
        self.chain.problem.take().map(Err)
    }

    /// Returns true if the item is in use. An unused item between others ends the iteration.
    fn is_used(&mut self, number: u64) -> bool {
        let is_used = !matches!(self.chain.item(&self.reader, number), Ok(0));
        if !is_used {
            self.front = self.back;
            let error = Error::corrupt("invalid entry array: it has an unused item");
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
