//! The state of the port, which the device shares with the reader and the writer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use diskfs_export::vhost_user::device::Rings;

/// The port's state and a notification of its changes.
#[derive(Debug, Default)]
pub(super) struct Port {
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum Phase {
    /// No program in the guest has opened the port yet.
    #[default]
    Awaited,
    Open(Arc<Rings>),
    /// The port was closed, or the guest has ended; it never opens again.
    Closed(Option<Arc<Rings>>),
}

impl Port {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a program in the guest has opened the port.
    pub(super) fn open(&self, rings: &Arc<Rings>) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Awaited) {
            *phase = Phase::Open(Arc::clone(rings));
            self.changed.notify_all();
        }
    }

    /// Notes that nothing more comes, and that nobody reads any more.
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
            rings.wake_each();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.phase(), Phase::Closed(_))
    }

    /// Waits until the port was opened. Returns `None` if it never will be.
    pub(super) fn wait(&self) -> Option<Arc<Rings>> {
        let phase = self.phase();
        let waited = self
            .changed
            .wait_while(phase, |phase| matches!(phase, Phase::Awaited));
        match &*waited.unwrap_or_else(PoisonError::into_inner) {
            Phase::Awaited => None,
            Phase::Open(rings) => Some(Arc::clone(rings)),
            // Data that the guest had sent before can still be read.
            Phase::Closed(rings) => rings.clone(),
        }
    }
}
