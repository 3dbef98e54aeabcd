//! Work on several things side by side, with the results in order.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

/// How many things are under way or wait for one before them. It bounds what is kept when one takes
/// long and those behind it don't.
const WINDOW: usize = 1024;

/// No more than that without being asked: the disk is the limit then.
const MAX_DEFAULT_THREADS: usize = 8;

/// As many as there are processors.
pub(crate) fn default_threads() -> usize {
    thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(MAX_DEFAULT_THREADS)
}

/// Does `work` on each of `things` in `threads` threads, and gives the results to `tell` in the
/// things' order, in the calling thread.
///
/// # Errors
/// The first of `tell`; no further work is begun then.
pub(crate) fn in_order<T: Send, R: Send, E>(
    things: impl Iterator<Item = T>,
    threads: usize,
    work: impl Fn(T) -> R + Sync,
    mut tell: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    if threads <= 1 {
        return things.map(work).try_for_each(tell);
    }
    let mut things = things.enumerate();
    let (give, take) = sync_channel::<(usize, T)>(WINDOW);
    let take = Mutex::new(take);
    let (done, results) = channel::<(usize, R)>();
    thread::scope(|scope| {
        // Owned here, so that leaving early hangs up and ends the threads.
        let give = give;
        for _ in 0..threads {
            let (done, take, work) = (done.clone(), &take, &work);
            scope.spawn(move || {
                loop {
                    // The guard is gone before the work begins.
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
        let mut told = 0;
        let mut given = 0;
        let mut more = true;
        loop {
            while more && given - told < WINDOW {
                match things.next().map(|thing| give.send(thing)) {
                    Some(Ok(())) => given += 1,
                    Some(Err(_)) | None => more = false,
                }
            }
            if told == given {
                return Ok(());
            }
            let Ok((number, result)) = results.recv() else {
                return Ok(()); // A thread panicked; the scope passes that on.
            };
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&told) {
                tell(result)?;
                told += 1;
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
            let mut told = Vec::new();
            let tell = |n| {
                told.push(n);
                Ok::<(), ()>(())
            };
            in_order(0..5000, threads, slow_first, tell).unwrap();
            assert_eq!(told, (0..5000).map(|n| n * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_ends_it() {
        let mut told = 0;
        let outcome = in_order(
            0..,
            3,
            |n| n,
            |n| {
                told += 1;
                if n == 10 { Err(n) } else { Ok(()) }
            },
        );
        assert_eq!((outcome, told), (Err(10), 11));
    }
}
