//! Requests over io_uring, where the kernel has it switched on: it writes a request into memory of
//! this process, and one system call answers a request and waits for the next one. Each processor
//! has a queue, whose threads run there: a request wakes a thread on its own processor.
//!
//! Most forgets, and interrupts, still come through `/dev/fuse`.

mod entry;
mod submission;
mod worker;

use std::fs;
use std::io;
use std::sync::Arc;

pub(crate) use self::worker::Next;
pub(crate) use self::worker::RingWorker;
use crate::channel::Channel;
use crate::ring::submission::Ring;

/// The switch of the kernel.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The processors that the machine may have; the kernel wants a queue for each.
const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// The most processors for which queues are made.
const QUEUES_MAX: usize = 32;

/// The most threads of all queues, as long as each queue has two.
const THREADS_MAX: usize = 64;

/// The rings for more threads, while all of a queue are busy for long.
const SPARE_RINGS: usize = 8;

/// Rings for the threads of one session. They are made before a process gives up the right to make
/// any, and can do little else.
#[derive(Debug)]
pub struct Rings {
    queues: u16,
    threads_per_queue: usize,
    rings: Vec<Ring>,
}

impl Rings {
    /// Makes the rings. Returns `None` if the kernel has no requests over io_uring, if root has not
    /// switched them on, or if this machine may have too many processors.
    ///
    /// # Errors
    /// Those of io_uring_setup(2) and io_uring_register(2).
    pub fn new(threads_per_queue: usize) -> io::Result<Option<Self>> {
        let is_on = fs::read_to_string(SWITCH).is_ok_and(|value| value.trim() == "Y");
        let queues = fs::read_to_string(POSSIBLE_PROCESSORS);
        let queues = queues.ok().and_then(|list| count(list.trim()));
        let Some(queues) = queues.filter(|&queues| is_on && queues <= QUEUES_MAX) else {
            return Ok(None);
        };
        let threads_per_queue = threads_per_queue.min((THREADS_MAX / queues).max(2));
        let rings = (0..queues * threads_per_queue + SPARE_RINGS).map(|_| Ring::new());
        Ok(Some(Self {
            queues: queues as u16,
            threads_per_queue,
            rings: rings.collect::<io::Result<_>>()?,
        }))
    }

    /// Returns the queue of each thread to begin with.
    pub(crate) fn queues(&self) -> impl Iterator<Item = u16> + use<> {
        let threads = self.threads_per_queue;
        (0..self.queues).flat_map(move |queue| (0..threads).map(move |_| queue))
    }

    /// Takes a ring for a thread of this queue.
    ///
    /// # Errors
    /// Fails if no ring is left, and with the errors of eventfd(2).
    pub(crate) fn take(
        &mut self,
        queue: u16,
        channel: Channel,
        payload_bytes: usize,
    ) -> io::Result<Arc<RingWorker>> {
        let none = || io::Error::other("no ring for another thread");
        let ring = self.rings.pop().ok_or_else(none)?;
        let worker = RingWorker::new(ring, queue, channel, payload_bytes)?;
        Ok(Arc::new(worker))
    }
}

/// Returns the number of processors in a list like `0-3,8`.
fn count(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |sum: usize, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        assert_eq!(count("0-3,8"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-0"), None);
        assert_eq!(count(""), None);
    }
}
