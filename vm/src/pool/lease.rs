//! The use of a machine's disks by one filesystem.

use std::sync::{Arc, Weak};
use std::time::Instant;

use super::{IDLE_MACHINE_TIMEOUT, IDLE_MACHINES_MAX, PooledMachine, Shared};
use crate::machine::Machine;

/// Disks of a machine that one filesystem uses. Dropping it is like [`LeaseEnd::Failed`].
#[derive(Debug)]
pub(crate) struct Lease {
    machine: Arc<Machine>,
    disks: Vec<usize>,
    /// A weak reference, so that the filesystem does not keep the pool.
    shared: Weak<Shared>,
    end: LeaseEnd,
}

/// The way in which the use of the disks ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// The filesystem was unmounted. The machine is kept for a while if this was its last one.
    Unmounted,
    /// The filesystem could not be mounted. The machine stays only if it has another one.
    NeverMounted,
    /// The filesystem could not be unmounted, and the kernel may still use the disks. The machine
    /// stays until its other filesystems are closed, and gets no new one.
    Failed,
}

impl Lease {
    pub(super) fn new(machine: Arc<Machine>, disks: Vec<usize>, shared: &Arc<Shared>) -> Self {
        Self {
            machine,
            disks,
            shared: Arc::downgrade(shared),
            end: LeaseEnd::Failed,
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the indices of the disks.
    pub(crate) fn disks(&self) -> &[usize] {
        &self.disks
    }

    /// Ends the use of the disks. The machine writes nothing to them any more.
    pub(crate) fn end(mut self, end: LeaseEnd) {
        self.end = end;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.machine.detach(&self.disks);
        // Without the pool, the machine ends with its last lease.
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let over = shared.end_lease(self);
        drop(over); // Machines are ended after the lock was released.
    }
}

impl Shared {
    /// Ends a lease. Returns the machines that end with it.
    fn end_lease(self: &Arc<Self>, lease: &Lease) -> Vec<PooledMachine> {
        let mut state = self.lock();
        let mut machines = state.machines.iter();
        let index = machines.position(|known| Arc::ptr_eq(&known.machine, &lease.machine));
        // A pool that has ended knows no machines.
        let Some(mut known) = index.map(|index| state.machines.remove(index)) else {
            return Vec::new();
        };
        known.is_faulty |= lease.end == LeaseEnd::Failed;
        known.set_leased(&lease.disks, false);
        let mut over = Vec::new();
        if !known.is_idle() {
            // The disks of a failed lease may be in use by the kernel, but are not leased again.
            state.machines.push(known);
        } else if lease.end == LeaseEnd::Unmounted && known.is_usable() {
            over.extend(state.remove_oldest_idle());
            known.until = Instant::now().checked_add(IDLE_MACHINE_TIMEOUT);
            state.machines.push(known);
            self.ensure_maintained(&mut state);
        } else {
            over.push(known);
        }
        drop(state);
        self.changed.notify_all();
        over
    }
}

impl super::PoolState {
    /// Removes the machine that has been idle for the longest time, if no further one may be kept.
    fn remove_oldest_idle(&mut self) -> Option<PooledMachine> {
        let idle = self.machines.iter().filter(|known| known.is_idle()).count();
        let is_full = idle >= IDLE_MACHINES_MAX;
        let oldest = self.machines.iter().position(PooledMachine::is_idle);
        oldest
            .filter(|_| is_full)
            .map(|index| self.machines.remove(index))
    }
}
