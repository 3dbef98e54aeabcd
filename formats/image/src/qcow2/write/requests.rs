//! Which reads and writes are under way.
//!
//! A read finds out where its bytes are, and then reads them. Between the two the cluster may be
//! freed; it must not become somebody else's before the read has come to its end. So each request
//! holds a lock shared while it uses clusters, and who frees them waits once for everybody who was
//! there before.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Threads seldom meet at one of so many locks.
const SLOTS: usize = 16;

/// One lock, on lines of its own: two that share a line would be one for the processors.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(RwLock<()>);

/// The requests that are under way.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: [Slot; SLOTS],
}

/// A request, until it is dropped. While a thread has one it begins no other, and waits for nobody
/// who waits for requests.
pub(crate) type Request<'a> = RwLockReadGuard<'a, ()>;

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

fn number_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(next));
            next
        })
    })
}

impl Requests {
    pub(crate) fn enter(&self) -> Request<'_> {
        let slot = number_of_thread().checked_rem(SLOTS).unwrap_or(0);
        #[expect(clippy::indexing_slicing, reason = "the slot is below the length")]
        let held = self.slots[slot].0.read();
        held.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when all requests that were under way have come to their end.
    pub(crate) fn wait_for_all(&self) {
        for slot in &self.slots {
            drop(slot.0.write().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
