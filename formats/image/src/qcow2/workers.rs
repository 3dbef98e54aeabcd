//! Threads that decompress in parallel with the reader and ahead of it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use diskfs_block::processors;

/// The largest number of threads. More would contend for the caches and for memory.
const THREADS_MAX: usize = 8;
/// The largest number of waiting jobs. Jobs are hints: the reader itself does what does not fit.
const QUEUE_MAX: usize = 256;

/// A job for another thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A few threads, started with the first job and ended with the image.
///
/// Every job is a hint. A reader never waits for a job that has not begun, so the threads are
/// optional: if they cannot be started, or are lost in a fork, only speed suffers.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The number of threads that wait for a job.
    idle: usize,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("jobs", &self.jobs.len())
            .field("idle", &self.idle)
            .field("closed", &self.closed)
            .finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next job; `None` if there will be none.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            queue.idle = queue.idle.saturating_add(1);
            queue = self
                .wake
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle = queue.idle.saturating_sub(1);
        }
    }
}

impl Workers {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// Queues jobs. They run in order, or are dropped.
    pub(crate) fn offer(&self, jobs: impl Iterator<Item = Job>) {
        let (waiting, idle) = {
            let mut queue = self.shared.lock();
            let room = QUEUE_MAX.saturating_sub(queue.jobs.len());
            queue.jobs.extend(jobs.take(room));
            (queue.jobs.len(), queue.idle)
        };
        if waiting > idle {
            self.start_thread();
        }
        for _ in 0..waiting.min(idle) {
            self.shared.wake.notify_one();
        }
    }

    fn start_thread(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= processors().get().min(THREADS_MAX) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let work = move || {
            while let Some(job) = shared.next() {
                job();
            }
        };
        let builder = thread::Builder::new().name("diskfs-inflate".to_owned());
        threads.extend(builder.spawn(work));
    }
}

impl Drop for Workers {
    /// Waits for the jobs that have begun, so that files are closed and unlocked when the last
    /// reference to an image is dropped.
    fn drop(&mut self) {
        {
            let mut queue = self.shared.lock();
            queue.closed = true;
            queue.jobs.clear();
        }
        self.shared.wake.notify_all();
        let threads = self
            .threads
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic in a job is a bug of the job; the reader gets its own error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn does_the_jobs_and_ends() {
        let (tx, rx) = mpsc::channel();
        let workers = Workers::new();
        for batch in 0..3 {
            let tx = tx.clone();
            workers.offer((0..5).map(move |i| {
                let tx = tx.clone();
                Box::new(move || tx.send(batch * 5 + i).unwrap()) as Job
            }));
        }
        drop(tx);
        let mut done: Vec<i32> = rx.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..15).collect::<Vec<_>>());
        drop(workers);
    }

    #[test]
    fn dropping_forgets_what_has_not_begun() {
        let (tx, rx) = mpsc::channel::<()>();
        let workers = Workers::new();
        let tx = Arc::new(Mutex::new(tx));
        workers.offer((0..10_000).map(move |_| {
            let tx = Arc::clone(&tx);
            Box::new(move || tx.lock().unwrap().send(()).unwrap_or_default()) as Job
        }));
        drop(workers);
        assert!(rx.iter().count() <= QUEUE_MAX);
    }
}
