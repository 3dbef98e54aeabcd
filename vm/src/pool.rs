//! The machines of all disks: those in use, and those that are kept for the next filesystem.
//!
//! A machine that has mounted an image may be controlled by the author of that image. It is used
//! only for the same [disk](DiskId), whose bytes the author has chosen anyway; any other disk gets a
//! new machine.

mod lease;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::VmOptions;
use super::machine::Machine;
use diskfs_disk::DiskId;
pub(super) use lease::{Lease, LeaseEnd};

/// The maximum number of machines that are kept without a filesystem.
const IDLE_MACHINES_MAX: usize = 4;

/// The time for which a machine without a filesystem is kept. A disk that was inspected is usually
/// opened for writing right after that.
const IDLE_MACHINE_TIMEOUT: Duration = Duration::from_secs(10);

/// The machines of one [`MicroVm`](super::MicroVm). Dropping it ends those without a filesystem;
/// the others end with their last filesystem.
#[derive(Debug)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: VmOptions,
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    /// The machines, the most recently used one last.
    machines: Vec<PooledMachine>,
    /// The disks for which a thread looks for a machine or starts one.
    turns: Vec<DiskId>,
    /// True if a thread maintains the pool.
    is_maintained: bool,
    has_ended: bool,
}

#[derive(Debug)]
struct PooledMachine {
    machine: Arc<Machine>,
    disk: DiskId,
    /// The disks of the machine that a filesystem uses.
    is_leased: Vec<bool>,
    /// True if unmounting has failed. Its other filesystems stay, but it gets no new one.
    is_faulty: bool,
    /// The end of the time for which it is kept without a filesystem.
    until: Option<Instant>,
}

impl PooledMachine {
    fn is_idle(&self) -> bool {
        !self.is_leased.contains(&true)
    }

    /// Returns true if it must not be used any more, and has no filesystem.
    fn is_over(&self) -> bool {
        let is_late = self.until.is_none_or(|until| until <= Instant::now());
        self.is_idle() && (is_late || !self.is_usable())
    }

    fn is_usable(&self) -> bool {
        !self.is_faulty && self.machine.is_sound()
    }

    /// Leases this many disks. Returns their indices; `None` if so many are not free.
    fn lease(&mut self, count: usize) -> Option<Vec<usize>> {
        let indices = 0..self.is_leased.len();
        let free = indices.filter(|&index| self.is_leased.get(index) == Some(&false));
        let free: Vec<usize> = free.take(count).collect();
        if free.len() < count {
            return None;
        }
        self.set_leased(&free, true);
        self.until = None;
        Some(free)
    }

    fn set_leased(&mut self, disks: &[usize], is_leased: bool) {
        for &index in disks {
            if let Some(known) = self.is_leased.get_mut(index) {
                *known = is_leased;
            }
        }
    }
}

/// The right to look for a machine of a disk or to start one. Threads that open several filesystems
/// of a disk at once thus get one machine.
#[derive(Debug)]
pub(super) struct Turn {
    shared: Arc<Shared>,
    disk: DiskId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.lock().turns.retain(|disk| *disk != self.disk);
        self.shared.changed.notify_all();
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

    /// Waits until no other thread looks for a machine of this disk or starts one.
    pub(super) fn turn(&self, disk: DiskId) -> Turn {
        let mut state = self.0.lock();
        while state.turns.contains(&disk) {
            let waited = self.0.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.turns.push(disk);
        Turn {
            shared: Arc::clone(&self.0),
            disk,
        }
    }

    /// Leases disks of a machine that was used for this disk before.
    pub(super) fn take(&self, disk: DiskId, count: usize) -> Option<Lease> {
        let mut state = self.0.lock();
        let machines = state.machines.iter_mut().rev();
        let usable = machines.filter(|known| known.disk == disk && known.is_usable());
        usable.filter(|known| !known.is_over()).find_map(|known| {
            let disks = known.lease(count)?;
            Some(Lease::new(Arc::clone(&known.machine), disks, &self.0))
        })
    }

    /// Adds a machine that was started for this disk, and leases its first disks.
    pub(super) fn add(&self, machine: Machine, disk: DiskId, count: usize) -> Lease {
        let machine = Arc::new(machine);
        let mut known = PooledMachine {
            is_leased: vec![false; machine.disk_count()],
            machine: Arc::clone(&machine),
            disk,
            is_faulty: false,
            until: None,
        };
        let disks = known.lease(count).unwrap_or_default();
        self.0.lock().machines.push(known);
        Lease::new(machine, disks, &self.0)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        // A lease keeps its own machine.
        let all = std::mem::take(&mut state.machines);
        drop(state);
        self.0.changed.notify_all();
        drop(all);
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
                state.machines.retain(|known| !known.is_idle());
            }
        }
    }

    /// Ends the machines that were kept too long, until none is left.
    fn maintain(&self) {
        let mut state = self.lock();
        while !state.has_ended {
            let over = state.machines.extract_if(.., |known| known.is_over());
            let over: Vec<PooledMachine> = over.collect();
            if !over.is_empty() {
                drop(state);
                drop(over);
                state = self.lock();
            } else if let Some(next) = state.machines.iter().filter_map(|known| known.until).min() {
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
