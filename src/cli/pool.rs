//! Parallel work on several things, with results in order.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use diskfs::block::processors;

/// The maximum number of things that are being worked on or wait for an earlier one. It bounds the
/// memory for results if one thing takes long.
const WINDOW: usize = 1024;

/// The maximum default number of threads: beyond that, the disk is the bottleneck.
const MAX_DEFAULT_THREADS: usize = 8;

/// Returns the default number of threads: one per processor, up to the maximum.
pub(crate) fn default_threads() -> usize {
    processors().get().min(MAX_DEFAULT_THREADS)
}

/// Calls `work` for each of `things` in `threads` threads, and passes the results to `report` in
/// the order of the things, in the calling thread.
///
/// # Errors
/// The first error of `report`. No further work is started after it.
pub(crate) fn in_order<T: Send, R: Send, E>(
    things: impl Iterator<Item = T>,
    threads: usize,
    work: impl Fn(T) -> R + Sync,
    mut report: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    if threads <= 1 {
        return things.map(work).try_for_each(report);
    }
    let mut things = things.enumerate();
    let (give, take) = sync_channel::<(usize, T)>(WINDOW);
    let take = Mutex::new(take);
    let (done, results) = channel::<(usize, R)>();
    thread::scope(|scope| {
        // Moved into the scope, so that an early return closes the channel and ends the threads.
        let give = give;
        for _ in 0..threads {
            let (done, take, work) = (done.clone(), &take, &work);
            scope.spawn(move || {
                loop {
                    // The lock is released before the work begins.
                    let next = take.lock().map(|take| take.recv());
                    let Ok(Ok((number, thing))) = next else {
                        return;
                    };
                    if done.send((number, work(thing))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut waiting = BTreeMap::new();
        let mut reported = 0;
        let mut given = 0;
        let mut more = true;
        loop {
            while more && given - reported < WINDOW {
                match things.next().map(|thing| give.send(thing)) {
                    Some(Ok(())) => given += 1,
                    Some(Err(_)) | None => more = false,
                }
            }
            if reported == given {
                return Ok(());
            }
            let Ok((number, result)) = results.recv() else {
                return Ok(()); // A thread panicked; the scope propagates that.
            };
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&reported) {
                report(result)?;
                reported += 1;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_is_first() {
        for threads in [1, 2, 7] {
            let slow_first = |n: u64| {
                if n.is_multiple_of(100) {
                    thread::sleep(std::time::Duration::from_millis(1));
                }
                n * 2
            };
            let mut reported = Vec::new();
            let report = |n| {
                reported.push(n);
                Ok::<(), ()>(())
            };
            in_order(0..5000, threads, slow_first, report).unwrap();
            assert_eq!(reported, (0..5000).map(|n| n * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_ends_it() {
        let mut reported = 0;
        let outcome = in_order(
            0..,
            3,
            |n| n,
            |n| {
                reported += 1;
                if n == 10 { Err(n) } else { Ok(()) }
            },
        );
        assert_eq!((outcome, reported), (Err(10), 11));
    }
}
