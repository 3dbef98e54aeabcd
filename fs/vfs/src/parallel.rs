//! Work of one read that several threads share: decompression of blocks or extents.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use crate::{Error, ErrorKind, Result};

/// The maximum number of threads that work for one read. A read of FUSE has at most 1 MiB.
const THREADS_MAX: usize = 4;

/// The number of bytes from which on several threads are used: starting one takes as long as
/// decompressing some KiB.
const PARALLEL_MIN_BYTES: usize = 128 << 10;

/// Returns the number of threads that are worth starting for the parts of a read: 1 to 4, at most
/// one for each processor. `slow_bytes` returns how many bytes of a part must be decompressed or
/// decoded; 0 for a part that is only read or copied.
pub fn threads_for<T>(parts: &[T], slow_bytes: impl Fn(&T) -> usize) -> usize {
    let (mut slow, mut bytes) = (0_usize, 0_usize);
    for len in parts.iter().map(slow_bytes).filter(|&len| len > 0) {
        slow = slow.saturating_add(1);
        bytes = bytes.saturating_add(len);
    }
    if slow < 2 || bytes < PARALLEL_MIN_BYTES {
        return 1;
    }
    slow.min(threads_max())
}

/// Returns the maximum number of threads of a read.
fn threads_max() -> usize {
    processors().min(THREADS_MAX)
}

/// Returns the number of processors, which is looked up once: that opens files of cgroups.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// The number of threads of this process that work for reads of several threads.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// The threads of one read, which count as busy until this value is dropped.
struct Reserved(usize);

impl Reserved {
    /// Reserves the caller's thread and up to `threads - 1` more, of which there are as many as
    /// processors without a busy thread: several large reads at once have no use for more.
    fn new(threads: usize) -> Self {
        let granted = |busy: usize| {
            let idle = processors().saturating_sub(busy);
            threads.min(idle).max(1)
        };
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let update = |busy: usize| Some(busy.saturating_add(granted(busy)));
        let (Ok(busy) | Err(busy)) = BUSY.fetch_update(set, get, update);
        Self(granted(busy))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        BUSY.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Calls `read` for each part, on up to `threads` threads, of which the caller's is one. Several
/// reads at once together have about as many threads as there are processors. Threads that cannot
/// be started are done without, as far as to the caller's alone.
///
/// # Errors
/// The error of the first part, in their order, that cannot be read. All parts before it were
/// read; those after it may have been.
pub fn read_parts<T: Send>(
    parts: Vec<T>,
    threads: usize,
    read: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    if threads < 2 {
        return parts.into_iter().try_for_each(read);
    }
    let reserved = Reserved::new(threads);
    read_on(reserved.0, parts, read)
}

/// Calls `read` for each part on this number of threads.
fn read_on<T: Send>(
    threads: usize,
    parts: Vec<T>,
    read: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let queue = Queue {
        parts: Mutex::new(Some(parts.into_iter().enumerate())),
        failed: Mutex::new(None),
    };
    let work = || queue.work(&read);
    let is_complete = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (1..threads).filter_map(spawn).collect();
        work();
        // All are joined here: the scope would panic if one that is left to it has panicked.
        let panicked = helpers.into_iter().filter_map(|helper| helper.join().err());
        panicked.count() == 0
    });
    let failed = queue.failed.into_inner();
    match failed.unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None if is_complete => Ok(()),
        None => Err(Error::new(ErrorKind::Io, "a thread of a read has failed")),
    }
}

/// The parts of a read that no thread has taken yet, and the first of the failed ones.
struct Queue<I> {
    /// The parts with their indexes; `None` after a part has failed.
    parts: Mutex<Option<I>>,
    failed: Mutex<Option<(usize, Error)>>,
}

impl<T, I: Iterator<Item = (usize, T)>> Queue<I> {
    /// Reads parts until none is left. They are taken in order, so when one fails, all before it
    /// are read or being read.
    fn work(&self, read: impl Fn(T) -> Result<()>) {
        while let Some((index, part)) = self.take() {
            if let Err(error) = read(part) {
                *self.parts.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.note(index, error);
            }
        }
    }

    fn take(&self) -> Option<(usize, T)> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.as_mut()?.next()
    }

    /// Keeps the error if no earlier part has failed.
    fn note(&self, index: usize, error: Error) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|&(other, _)| index < other) {
            *failed = Some((index, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn small_work_is_for_one_thread() {
        let of = |parts: &[usize]| threads_for(parts, |&len| len);
        assert_eq!(of(&[]), 1);
        assert_eq!(of(&[1 << 20]), 1);
        assert_eq!(of(&[1 << 20, 0, 0]), 1);
        assert_eq!(of(&[1000, 1000]), 1);
        assert_eq!(of(&[64 << 10, 64 << 10]), threads_max().min(2));
        assert_eq!(of(&[64 << 10; 100]), threads_max());
        assert!(threads_max() <= THREADS_MAX);
    }

    #[test]
    fn all_parts_are_read_and_several_at_once() {
        for threads in 1..5 {
            let mut buffer = [0_u8; 40];
            let parts = buffer.chunks_mut(4).zip(1..).collect();
            read_on(threads, parts, |(out, n)| {
                out.fill(n);
                Ok(())
            })
            .unwrap();
            assert!(buffer.iter().zip(0_u8..).all(|(&b, at)| b == at / 4 + 1));
        }
        let both = Barrier::new(2);
        read_on(2, vec![(), ()], |()| {
            both.wait();
            Ok(())
        })
        .unwrap();
    }

    fn planted(part: usize) -> Error {
        Error::new(ErrorKind::Corrupt, format!("part {part}"))
    }

    #[test]
    fn nothing_is_taken_after_a_failed_part() {
        let mut read = Vec::new();
        let queue = Queue {
            parts: Mutex::new(Some((0..100).enumerate())),
            failed: Mutex::new(None),
        };
        let reads = Mutex::new(&mut read);
        queue.work(|part| {
            reads.lock().unwrap().push(part);
            (part < 10).then_some(()).ok_or_else(|| planted(part))
        });
        assert_eq!(queue.take(), None);
        assert_eq!(read, (0..=10).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_failed_part_is_reported() {
        for threads in 2..5 {
            let (both, read) = (Barrier::new(2), AtomicUsize::new(0));
            let error = read_on(threads, (0..100).collect(), |part| {
                if part == 10 || part == 11 {
                    both.wait();
                    return Err(planted(part));
                }
                read.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .unwrap_err();
            assert!(error.to_string().contains("part 10"), "{error}");
            assert!(read.into_inner() >= 10, "{threads} threads");
        }
    }

    #[test]
    fn the_order_of_parts_decides_and_not_that_of_failures() {
        let queue = Queue::<std::iter::Empty<(usize, ())>> {
            parts: Mutex::new(None),
            failed: Mutex::new(None),
        };
        for part in [11, 10, 12] {
            queue.note(part, planted(part));
        }
        let (index, error) = queue.failed.into_inner().unwrap().unwrap();
        assert_eq!(index, 10);
        assert!(error.to_string().contains("part 10"), "{error}");
    }

    #[test]
    fn a_panic_of_a_thread_is_an_error() {
        let caller = std::thread::current().id();
        let both = Barrier::new(2);
        let error = read_on(2, vec![(), ()], |()| {
            both.wait();
            assert_eq!(std::thread::current().id(), caller, "planted");
            Ok(())
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn reads_at_once_share_the_processors() {
        let first = Reserved::new(usize::MAX);
        assert_eq!(first.0, processors());
        assert_eq!(Reserved::new(4).0, 1);
        drop(first);
        let mut read = [false; 2];
        read_parts(read.iter_mut().collect(), 2, |part| {
            *part = true;
            Ok(())
        })
        .unwrap();
        assert_eq!((read, BUSY.load(Ordering::Relaxed)), ([true; 2], 0));
    }
}
