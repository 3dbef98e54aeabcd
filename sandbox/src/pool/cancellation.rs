//! Cancellation of a job from another thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// A switch that cancels a job. Clones cancel the same job.
#[derive(Debug, Clone)]
pub struct Cancellation {
    /// Readable once the job is cancelled; it is never read.
    event: Arc<OwnedFd>,
}

impl Cancellation {
    /// Creates a switch.
    ///
    /// # Errors
    /// Fails if this process can open no more descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = Arc::new(eventfd(0, flags)?);
        Ok(Self { event })
    }

    /// Cancels the job: it is told to stop, and killed if it does not within some seconds.
    pub fn cancel(&self) {
        // It fails only if the counter is full: after 2^64 cancellations.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    pub(super) fn event(&self) -> &OwnedFd {
        &self.event
    }
}
