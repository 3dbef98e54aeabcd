//! Machines that wait for something to mount.
//!
//! A machine that has mounted something may be in the hands of whoever made that image. It goes on for the
//! same [disk](DiskId) only, whose bytes that person has chosen anyhow; any other disk gets a machine that has
//! never mounted anything.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::machine::Machine;
use super::{VmOptions, start};
use diskfs_disk::{DiskId, Result};

/// How many machines wait that have mounted something: a disk's filesystems are opened one after the other,
/// and a system is seldom on more.
const MOST_USED: usize = 4;

/// How long one of them waits. A disk that is opened for writing after it was looked into is so at once.
const USED_WAITS: Duration = Duration::from_secs(10);

/// The machines of one [`MicroVm`](super::MicroVm) that wait. Dropped, they are gone.
#[derive(Debug)]
pub(super) struct Pool(Arc<Shared>);

/// Where a machine goes back to.
#[derive(Debug, Clone)]
pub(super) struct Home(Weak<Shared>);

#[derive(Debug)]
struct Shared {
    options: VmOptions,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Those that have never mounted anything.
    new: Vec<Machine>,
    /// The others; who came last is the last one.
    used: Vec<Used>,
    /// Whether a thread looks after them.
    is_kept: bool,
    starting: Starting,
    /// No machine could be started: no more are kept.
    has_failed: bool,
    has_ended: bool,
}

/// Whether the thread starts a machine just now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Starting {
    #[default]
    No,
    Yes,
    /// And somebody waits for it.
    Awaited,
}

#[derive(Debug)]
struct Used {
    machine: Machine,
    disk: DiskId,
    until: Option<Instant>,
}

impl Used {
    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now()) || !self.machine.is_sound()
    }
}

impl Pool {
    /// One that begins to start as many machines as the options want waiting.
    pub(super) fn new(options: VmOptions) -> Self {
        let pool = Self(Arc::new(Shared {
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
        }));
        if pool.0.wanted() > 0 {
            pool.0.keep(&mut pool.0.lock());
        }
        pool
    }

    pub(super) fn options(&self) -> &VmOptions {
        &self.0.options
    }

    pub(super) fn home(&self) -> Home {
        Home(Arc::downgrade(&self.0))
    }

    /// A machine that waits and may be used for this disk: one that was used for it, or a new one.
    pub(super) fn take(&self, disk: DiskId) -> Option<Machine> {
        let mut over = Vec::new(); // Ended when the lock is no longer held.
        let mut state = self.0.lock();
        if let Some(index) = state.used.iter().rposition(|used| used.disk == disk) {
            let used = state.used.remove(index);
            if !used.is_over() {
                return Some(used.machine);
            }
            over.push(used.machine);
        }
        loop {
            if let Some(machine) = state.new.pop() {
                self.0.changed.notify_all();
                if machine.is_sound() {
                    return Some(machine);
                }
                over.push(machine);
            } else if state.starting == Starting::Yes {
                // That one will be there sooner than another.
                state.starting = Starting::Awaited;
                let waited = self
                    .0
                    .changed
                    .wait_while(state, |state| state.starting == Starting::Awaited);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            } else {
                return None;
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        let all = (
            std::mem::take(&mut state.new),
            std::mem::take(&mut state.used),
        );
        drop(state);
        self.0.changed.notify_all();
        drop(all);
    }
}

impl Home {
    /// Takes back a machine whose filesystem of that disk is unmounted; ends one that must not be used again.
    pub(super) fn put(&self, machine: Machine, disk: DiskId) {
        machine.detach();
        let shared = self.0.upgrade().filter(|_| machine.is_sound());
        let Some(shared) = shared else { return };
        let mut state = shared.lock();
        if state.has_ended {
            return;
        }
        let too_many = state.used.len() >= MOST_USED;
        let oldest = too_many.then(|| state.used.remove(0));
        state.used.push(Used {
            machine,
            disk,
            until: Instant::now().checked_add(USED_WAITS),
        });
        shared.keep(&mut state);
        drop(state);
        shared.changed.notify_all();
        drop(oldest);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self) -> usize {
        self.options.pool.into()
    }

    /// Sees to it that a thread looks after them.
    fn keep(self: &Arc<Self>, state: &mut State) {
        if state.is_kept {
            return;
        }
        let shared = Arc::clone(self);
        let keeper = thread::Builder::new().name("microvm pool".to_owned());
        match keeper.spawn(move || shared.look_after()) {
            Ok(_) => state.is_kept = true,
            // Nobody would end them.
            Err(error) => {
                tracing::debug!(%error, "no microVM is kept");
                state.used.clear();
            }
        }
    }

    /// Starts new ones and ends those that have waited too long, as long as there is anything to do.
    fn look_after(&self) {
        let mut state = self.lock();
        while !state.has_ended {
            let over: Vec<Used> = state.used.extract_if(.., |used| used.is_over()).collect();
            if !over.is_empty() {
                drop(state);
                drop(over);
                state = self.lock();
            } else if !state.has_failed && state.new.len() < self.wanted() {
                state = self.add_new(state);
            } else if let Some(next) = state.used.iter().filter_map(|used| used.until).min() {
                let left = next.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else if self.wanted() > 0 && !state.has_failed {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            } else {
                break;
            }
        }
        state.is_kept = false;
    }

    fn add_new<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.starting = Starting::Yes;
        drop(state);
        let started: Result<Machine> = start::start_empty(&self.options);
        let mut state = self.lock();
        state.starting = Starting::No;
        self.changed.notify_all();
        match started {
            // Without the lock: it is ended.
            Ok(machine) if state.has_ended => {
                drop(state);
                drop(machine);
                state = self.lock();
            }
            Ok(machine) => state.new.push(machine),
            Err(error) => {
                tracing::warn!(%error, "no microVM is kept waiting");
                state.has_failed = true;
            }
        }
        state
    }
}
