//! The merge of many files into one stream, in the order of time.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use super::origin::Origin;
use super::stream::Stream;
use super::window::Window;
use super::{Order, Problem, Record};
use diskfs_disk::Filesystem;

/// A file in the queue.
struct QueuedFile {
    /// The time of its next record; for a file that is not open, the earliest possible time.
    key: (u64, u64),
    /// The number of the file, which makes the order deterministic.
    number: usize,
    order: Order,
    /// The open file and its next record.
    open: Option<(Stream, Record)>,
}

/// The first file in the order is the greatest, as a heap requires.
impl Ord for QueuedFile {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = match self.order {
            Order::OldestFirst => other.key.cmp(&self.key),
            Order::NewestFirst => self.key.cmp(&other.key),
        };
        by_time.then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for QueuedFile {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueuedFile {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for QueuedFile {}

/// The records of all files. A part that can't be read becomes a [`Problem`] among them, and the
/// stream continues.
pub struct Records {
    filesystem: Filesystem,
    origins: Vec<Origin>,
    order: Order,
    window: Window,
    waiting: BinaryHeap<QueuedFile>,
    problems: VecDeque<Problem>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Records");
        f.field("origins", &self.origins)
            .field("order", &self.order)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl Records {
    pub(super) fn new(
        filesystem: Filesystem,
        origins: Vec<Origin>,
        problems: VecDeque<Problem>,
        (order, window): (Order, Window),
    ) -> Self {
        let mut records = Self {
            filesystem,
            origins,
            order,
            window,
            waiting: BinaryHeap::new(),
            problems,
        };
        for number in 0..records.origins.len() {
            records.wait(number);
        }
        records
    }

    /// Puts a file into the queue; it is not kept open.
    fn wait(&mut self, number: usize) {
        let origin = &self.origins[number];
        match origin.bound(&self.filesystem, self.order, &self.window) {
            Ok(Some(time)) => self.waiting.push(QueuedFile {
                // The file comes before all records of that time, so that it is open when their
                // order is decided.
                key: match self.order {
                    Order::OldestFirst => (time, 0),
                    Order::NewestFirst => (time, u64::MAX),
                },
                number,
                order: self.order,
                open: None,
            }),
            Ok(None) => {}
            Err(error) => self.complain(number, error.reason()),
        }
    }

    fn complain(&mut self, number: usize, reason: String) {
        let path = &self.origins[number].path;
        self.problems.push_back(Problem::new(path, reason));
    }

    fn open(&mut self, number: usize) {
        let origin = &self.origins[number];
        match origin.open(&self.filesystem, self.order, &self.window) {
            Ok(stream) => self.requeue(number, stream),
            Err(error) => self.complain(number, error.reason()),
        }
    }

    /// Puts a file back into the queue with the time of its next wanted record.
    fn requeue(&mut self, number: usize, mut stream: Stream) {
        while let Some(record) = stream.next() {
            let time = record.realtime_us();
            if self.window.is_over(time, self.order) {
                break;
            }
            if self.window.contains(time) {
                self.waiting.push(QueuedFile {
                    key: (time, record.seqnum()),
                    number,
                    order: self.order,
                    open: Some((stream, record)),
                });
                return;
            }
        }
        if let Some(reason) = stream.take_problem() {
            self.complain(number, reason);
        }
    }
}

impl Iterator for Records {
    type Item = Result<Record, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(problem) = self.problems.pop_front() {
                return Some(Err(problem));
            }
            let QueuedFile { number, open, .. } = self.waiting.pop()?;
            let Some((stream, record)) = open else {
                self.open(number);
                continue;
            };
            self.requeue(number, stream);
            return Some(Ok(record));
        }
    }
}
