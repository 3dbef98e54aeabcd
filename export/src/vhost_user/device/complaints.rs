//! What a guest did wrong, in the log, but not for ever.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many of them are logged: a guest could fill the host's disk with them.
const MOST: u32 = 20;

/// Counts the complaints about one front end.
#[derive(Debug)]
pub(super) struct Complaints {
    device: &'static str,
    count: AtomicU32,
}

impl Complaints {
    pub(super) fn new(device: &'static str) -> Self {
        Self {
            device,
            count: AtomicU32::new(0),
        }
    }

    /// Logs what the guest did wrong.
    pub(super) fn about(&self, what: impl Display) {
        let device = self.device;
        match self.count.fetch_add(1, Ordering::Relaxed) {
            0..MOST => tracing::warn!("{device}: {what}"),
            MOST => tracing::warn!("{device}: no more is said of what its guest does wrong"),
            // Nobody looks at the number any more, but it must not come round to nought.
            _ => self.count.store(MOST.saturating_add(1), Ordering::Relaxed),
        }
    }
}
