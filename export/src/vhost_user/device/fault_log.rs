//! Rate-limited log messages about invalid requests of a guest.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of messages that are logged: a guest could fill the host's disk with them.
const MESSAGES_MAX: u32 = 20;

/// The counter of messages about one front end.
#[derive(Debug)]
pub(super) struct FaultLog {
    device: &'static str,
    count: AtomicU32,
}

impl FaultLog {
    pub(super) fn new(device: &'static str) -> Self {
        Self {
            device,
            count: AtomicU32::new(0),
        }
    }

    /// Logs a fault of the guest.
    pub(super) fn log(&self, fault: impl Display) {
        let device = self.device;
        match self.count.fetch_add(1, Ordering::Relaxed) {
            0..MESSAGES_MAX => tracing::warn!("{device}: {fault}"),
            MESSAGES_MAX => tracing::warn!("{device}: further faults of this guest are not logged"),
            // The count no longer matters, but it must not wrap around to zero.
            _ => self
                .count
                .store(MESSAGES_MAX.saturating_add(1), Ordering::Relaxed),
        }
    }
}
