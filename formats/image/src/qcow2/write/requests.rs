//! The reads and writes in flight.
//!
//! A read looks up where its bytes are, and then reads them. In between, the cluster may be freed,
//! but it must not be reused before the read ends. So each request holds a lock shared while it
//! uses clusters, and freeing waits once for all requests that began earlier.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The number of locks. Threads rarely contend for one of so many.
const SLOTS: usize = 16;

/// A lock with cache lines of its own: processors would contend for a shared line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(RwLock<()>);

/// The requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: [Slot; SLOTS],
}

/// A request in flight, until it is dropped. A thread must not begin another one meanwhile, nor
/// wait for a thread that waits for requests.
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

    /// Waits until all requests that are in flight now have ended.
    pub(crate) fn wait_for_all(&self) {
        for slot in &self.slots {
            drop(slot.0.write().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
