//! How far the port is: what the device tells whoever reads and writes.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use diskfs_export::vhost_user::device::Rings;

/// The port, as its both ends share it.
#[derive(Debug, Default)]
pub(super) struct Port {
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum Phase {
    /// No program in the guest has opened it yet.
    #[default]
    Awaited,
    Open(Arc<Rings>),
    /// For good.
    Closed(Option<Arc<Rings>>),
}

impl Port {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program in the guest has opened it.
    pub(super) fn open(&self, rings: &Arc<Rings>) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Awaited) {
            *phase = Phase::Open(Arc::clone(rings));
            self.changed.notify_all();
        }
    }

    /// Nothing comes any more, and nobody reads.
    pub(super) fn close(&self) {
        let mut phase = self.phase();
        let rings = match &*phase {
            Phase::Open(rings) => Some(Arc::clone(rings)),
            Phase::Awaited => None,
            Phase::Closed(_) => return,
        };
        *phase = Phase::Closed(rings.clone());
        self.changed.notify_all();
        drop(phase);
        if let Some(rings) = rings {
            rings.look();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.phase(), Phase::Closed(_))
    }

    /// Waits until it was opened. `None` when it never will be.
    pub(super) fn wait(&self) -> Option<Arc<Rings>> {
        let phase = self.phase();
        let waited = self
            .changed
            .wait_while(phase, |phase| matches!(phase, Phase::Awaited));
        match &*waited.unwrap_or_else(PoisonError::into_inner) {
            Phase::Awaited => None,
            Phase::Open(rings) => Some(Arc::clone(rings)),
            // What the guest had sent can still be read.
            Phase::Closed(rings) => rings.clone(),
        }
    }
}
