//! Work on the pieces of a disk by several threads, with steps that are done in the pieces' order.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use diskfs_block::{Error, ErrorKind, Result, check_cancelled};

use super::pieces::{Piece, Pieces};

/// The state that the threads share.
struct Shared<'a> {
    pieces: Mutex<Pieces<'a>>,
    order: Order,
    /// The number of bytes that were done and not yet reported.
    done_bytes: AtomicU64,
}

/// The order of the pieces.
#[derive(Default)]
struct Order {
    state: Mutex<OrderState>,
    changed: Condvar,
}

#[derive(Default)]
struct OrderState {
    /// The number of the piece whose step is next.
    next: u64,
    failure: Option<Error>,
    has_ended: bool,
}

/// The place of a piece in the order.
pub(super) struct Turn<'a> {
    number: u64,
    order: &'a Order,
}

impl Turn<'_> {
    /// Does a step after the steps of all pieces before this one.
    pub(super) fn take<T>(self, step: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.order.lock();
        while state.next != self.number && !state.has_ended {
            let waited = self.order.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_ended {
            return Err(stopped());
        }
        drop(state); // Only the thread whose turn it is gets here.
        let result = step()?;
        let mut state = self.order.lock();
        state.next = state.next.saturating_add(1);
        self.order.changed.notify_all();
        Ok(result)
    }
}

/// The error of a thread that ends because another one has failed. It is never reported.
fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "another thread has failed")
}

impl Order {
    fn lock(&self) -> MutexGuard<'_, OrderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all threads stop, for the first of these reasons.
    fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        state.has_ended = true;
        self.changed.notify_all();
    }

    fn has_ended(&self) -> bool {
        self.lock().has_ended
    }
}

/// Stops the other threads if a thread panics, because they would wait for its turn forever.
struct StopOnPanic<'a>(&'a Order);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(stopped());
        }
    }
}

/// Calls `work` for each piece, on this thread and up to `threads - 1` others. If a thread cannot be
/// started, the others do its work.
///
/// `work` either takes the turn of every piece, or of none. Each thread has a state of its own. This
/// thread calls `progress` with the number of bytes of the disk that were done.
///
/// # Errors
/// The first error of `new_state` or `work`; `Cancelled` if `progress` breaks.
pub(super) fn for_each<S>(
    pieces: Pieces<'_>,
    threads: NonZeroUsize,
    new_state: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, Piece, Turn<'_>) -> Result<()> + Sync,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let shared = Shared {
        pieces: Mutex::new(pieces),
        order: Order::default(),
        done_bytes: AtomicU64::new(0),
    };
    let run = |report: &mut dyn FnMut() -> Result<()>| {
        let _stop = StopOnPanic(&shared.order);
        let order = &shared.order;
        let mut all = || {
            let mut state = new_state()?;
            while let Some((number, piece)) = shared.next()? {
                work(&mut state, piece, Turn { number, order })?;
                report()?;
            }
            Ok(())
        };
        all().unwrap_or_else(|error| order.fail(error));
    };
    thread::scope(|scope| {
        for _ in 1..threads.get() {
            let builder = thread::Builder::new().name("diskfs-convert".to_owned());
            let _ = builder.spawn_scoped(scope, || run(&mut || Ok(())));
        }
        run(&mut || check_cancelled(progress(shared.done_bytes.swap(0, Ordering::Relaxed))));
    });
    let failure = shared.order.lock().failure.take();
    failure.map_or(Ok(()), Err)?;
    check_cancelled(progress(shared.done_bytes.load(Ordering::Relaxed)))
}

impl Shared<'_> {
    /// Returns the next piece and its number; `None` if there are no more, or a thread has failed.
    fn next(&self) -> Result<Option<(u64, Piece)>> {
        if self.order.has_ended() {
            return Ok(None);
        }
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let before = pieces.position();
        let number = pieces.number_of_next();
        let piece = pieces.next().transpose()?;
        let passed = pieces.position().saturating_sub(before);
        self.done_bytes.fetch_add(passed, Ordering::Relaxed);
        Ok(piece.map(|piece| (number, piece)))
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;

    use super::super::pieces::Skipped;
    use super::*;

    fn pieces(device: &Memory) -> Pieces<'_> {
        Pieces::new(device, 512, Skipped::Zeroes)
    }

    #[test]
    fn steps_are_done_in_order_and_all_bytes_are_reported() {
        let device = Memory::new(vec![1; 64 << 20]);
        let seen = Mutex::new(Vec::new());
        let mut reported = 0;
        let threads = NonZeroUsize::new(5).unwrap();
        let work = |(): &mut (), piece: Piece, turn: Turn<'_>| {
            turn.take(|| {
                seen.lock().unwrap().push(piece.offset);
                Ok(())
            })
        };
        let mut progress = |bytes| {
            reported += bytes;
            ControlFlow::Continue(())
        };
        for_each(pieces(&device), threads, || Ok(()), work, &mut progress).unwrap();
        let seen = seen.into_inner().unwrap();
        assert!(seen.len() > 10 && seen.is_sorted());
        assert_eq!(reported, 64 << 20);
    }

    #[test]
    fn the_first_error_ends_all_threads() {
        let device = Memory::new(vec![1; 64 << 20]);
        let threads = NonZeroUsize::new(4).unwrap();
        let work = |(): &mut (), piece: Piece, turn: Turn<'_>| {
            turn.take(|| match piece.offset {
                0..0x100_0000 => Ok(()),
                offset => Err(Error::invalid(format!("no {offset}"))),
            })
        };
        let mut go_on = |_| ControlFlow::Continue(());
        let error = for_each(pieces(&device), threads, || Ok(()), work, &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let mut stop = |_| ControlFlow::Break(());
        let work = |(): &mut (), _: Piece, turn: Turn<'_>| turn.take(|| Ok(()));
        let error = for_each(pieces(&device), threads, || Ok(()), work, &mut stop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
