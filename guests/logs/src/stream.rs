//! The records of one file, in either order.

use diskfs_journal::Entries;

use super::backward::Backward;
use super::forward::Forward;
use super::{Order, Record};

pub(super) enum Stream {
    Journal(JournalStream),
    Forward(Forward),
    Backward(Backward),
}

impl Stream {
    pub(super) fn next(&mut self) -> Option<Record> {
        match self {
            Self::Journal(journal) => journal.next(),
            Self::Forward(lines) => lines.next().map(Record::Line),
            Self::Backward(lines) => lines.next().map(Record::Line),
        }
    }

    /// Returns the error that prevented the reading of some records, once the stream has ended.
    pub(super) fn take_problem(&mut self) -> Option<String> {
        match self {
            Self::Journal(journal) => journal.take_problem(),
            Self::Forward(lines) => lines.take_problem().map(|error| error.to_string()),
            Self::Backward(lines) => lines.take_problem().map(|error| error.to_string()),
        }
    }
}

/// The readable entries of a journal file.
pub(super) struct JournalStream {
    entries: Entries,
    order: Order,
    broken: u64,
    /// The error of the first damaged entry.
    reason: Option<diskfs_block::Error>,
}

impl JournalStream {
    pub(super) fn new(entries: Entries, order: Order) -> Self {
        Self {
            entries,
            order,
            broken: 0,
            reason: None,
        }
    }

    fn next(&mut self) -> Option<Record> {
        loop {
            let entry = match self.order {
                Order::OldestFirst => self.entries.next(),
                Order::NewestFirst => self.entries.next_back(),
            };
            match entry? {
                Ok(entry) => return Some(Record::Entry(entry)),
                Err(error) => {
                    self.broken += 1;
                    self.reason.get_or_insert(error);
                }
            }
        }
    }

    fn take_problem(&mut self) -> Option<String> {
        let reason = self.reason.take()?;
        Some(match self.broken {
            1 => format!("cannot read an entry: {reason}"),
            broken => format!("cannot read {broken} entries; the first: {reason}"),
        })
    }
}
