//! Many files as one stream, in the order of time.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use super::origin::Origin;
use super::stream::Stream;
use super::window::Window;
use super::{Order, Problem, Record};
use diskfs_disk::Filesystem;

/// A file whose time is to come.
struct Waiting {
    /// When its next record is; of one that is not open, when it may be at the earliest.
    key: (u64, u64),
    /// Its number, so that the order is the same each time.
    number: usize,
    order: Order,
    /// The open file and its next record.
    open: Option<(Stream, Record)>,
}

/// What comes first is the greatest, as a heap has it.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = match self.order {
            Order::OldestFirst => other.key.cmp(&self.key),
            Order::NewestFirst => self.key.cmp(&other.key),
        };
        by_time.then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// The records of all files. What can't be read is a [`Problem`] among them, and the rest goes on.
pub struct Records {
    filesystem: Filesystem,
    origins: Vec<Origin>,
    order: Order,
    window: Window,
    waiting: BinaryHeap<Waiting>,
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

    /// Lets a file wait for its time; it is not kept open meanwhile.
    fn wait(&mut self, number: usize) {
        let origin = &self.origins[number];
        match origin.bound(&self.filesystem, self.order, &self.window) {
            Ok(Some(time)) => self.waiting.push(Waiting {
                // Before all records of that time, so that it is open when their order is decided.
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
            Ok(stream) => self.go_on(number, stream),
            Err(error) => self.complain(number, error.reason()),
        }
    }

    /// Lets a file wait for the time of its next record that is wanted.
    fn go_on(&mut self, number: usize, mut stream: Stream) {
        while let Some(record) = stream.next() {
            let time = record.realtime_us();
            if self.window.is_over(time, self.order) {
                break;
            }
            if self.window.holds(time) {
                self.waiting.push(Waiting {
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
            let Waiting { number, open, .. } = self.waiting.pop()?;
            let Some((stream, record)) = open else {
                self.open(number);
                continue;
            };
            self.go_on(number, stream);
            return Some(Ok(record));
        }
    }
}
