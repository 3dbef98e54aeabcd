//! The pool of used machines.
//!
//! A machine that has mounted an image may be controlled by the author of that image. It is used
//! again only for the same [disk](DiskId), whose bytes the author has chosen anyway; any other disk
//! gets a new machine.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::VmOptions;
use super::machine::Machine;
use diskfs_disk::DiskId;

/// The maximum number of used machines in the pool: a disk's filesystems are opened one after the
/// other, and a system seldom has more.
const USED_MACHINES_MAX: usize = 4;

/// The time for which a used machine is kept. A disk that was inspected is usually opened for
/// writing right after that.
const USED_MACHINE_TIMEOUT: Duration = Duration::from_secs(10);

/// The idle machines of one [`MicroVm`](super::MicroVm). Dropping it ends them.
#[derive(Debug)]
pub(super) struct Pool(Arc<Shared>);

/// A weak reference to the pool to which a machine returns.
#[derive(Debug, Clone)]
pub(super) struct PoolHandle(Weak<Shared>);

#[derive(Debug)]
struct Shared {
    options: VmOptions,
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    /// The used machines, the most recent one last.
    used: Vec<UsedMachine>,
    /// True if a thread maintains the pool.
    is_maintained: bool,
    has_ended: bool,
}

#[derive(Debug)]
struct UsedMachine {
    machine: Machine,
    disk: DiskId,
    until: Option<Instant>,
}

impl UsedMachine {
    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now()) || !self.machine.is_sound()
    }
}

impl Pool {
    /// Creates an empty pool.
    pub(super) fn new(options: VmOptions) -> Self {
        Self(Arc::new(Shared {
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    pub(super) fn options(&self) -> &VmOptions {
        &self.0.options
    }

    pub(super) fn handle(&self) -> PoolHandle {
        PoolHandle(Arc::downgrade(&self.0))
    }

    /// Takes a machine that was used for this disk before.
    pub(super) fn take(&self, disk: DiskId) -> Option<Machine> {
        let mut state = self.0.lock();
        let index = state.used.iter().rposition(|used| used.disk == disk)?;
        let used = state.used.remove(index);
        // A machine that is over is ended after the lock was released.
        drop(state);
        (!used.is_over()).then_some(used.machine)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        let all = std::mem::take(&mut state.used);
        drop(state);
        self.0.changed.notify_all();
        drop(all);
    }
}

impl PoolHandle {
    /// Puts a machine whose filesystem is unmounted back into the pool, for that disk only. Ends it
    /// if it must not be used again.
    pub(super) fn put(&self, machine: Machine, disk: DiskId) {
        machine.detach();
        let shared = self.0.upgrade().filter(|_| machine.is_sound());
        let Some(shared) = shared else { return };
        let mut state = shared.lock();
        if state.has_ended {
            return;
        }
        let too_many = state.used.len() >= USED_MACHINES_MAX;
        let oldest = too_many.then(|| state.used.remove(0));
        state.used.push(UsedMachine {
            machine,
            disk,
            until: Instant::now().checked_add(USED_MACHINE_TIMEOUT),
        });
        shared.ensure_maintained(&mut state);
        drop(state);
        shared.changed.notify_all();
        drop(oldest);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that a thread maintains the pool.
    fn ensure_maintained(self: &Arc<Self>, state: &mut PoolState) {
        if state.is_maintained {
            return;
        }
        let shared = Arc::clone(self);
        let keeper = thread::Builder::new().name("microvm pool".to_owned());
        match keeper.spawn(move || shared.maintain()) {
            Ok(_) => state.is_maintained = true,
            // Without the thread, the machines would never be ended.
            Err(error) => {
                tracing::debug!(%error, "cannot start the pool's thread; no microVM is kept");
                state.used.clear();
            }
        }
    }

    /// Ends the machines that were kept too long, until none is left.
    fn maintain(&self) {
        let mut state = self.lock();
        while !state.has_ended {
            let over: Vec<UsedMachine> = state.used.extract_if(.., |used| used.is_over()).collect();
            if !over.is_empty() {
                drop(state);
                drop(over);
                state = self.lock();
            } else if let Some(next) = state.used.iter().filter_map(|used| used.until).min() {
                let left = next.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                break;
            }
        }
        state.is_maintained = false;
    }
}
