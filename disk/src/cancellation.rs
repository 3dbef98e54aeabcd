//! Cancellation of long work from another thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_block::{BlockRead, Extent, Result, check_cancelled};

/// A token by which one thread asks work in other threads to stop. Clones share their state.
///
/// A disk that was opened for reading [with the token](crate::DiskOptions::cancellation) fails
/// every read with [`Cancelled`](crate::ErrorKind::Cancelled) after [`cancel`](Self::cancel). That
/// ends any work on the disk: a walk, an inspection, a check, a copy to the host. On a disk that is
/// open for writing, reads and writes go on, because a change that was begun must be completed or
/// undone: progress callbacks return [`flow`](Self::flow), and the work stops between two of its
/// steps.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Returns a new token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks all work that has this token or a clone of it to stop. This cannot be undone.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns what a progress callback must return: `Break` after [`cancel`](Self::cancel), else
    /// `Continue`.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl From<Arc<AtomicBool>> for CancellationToken {
    /// Returns a token that is cancelled when somebody sets the flag.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// A device whose reads fail once its token is cancelled.
#[derive(Debug)]
pub(crate) struct Cancellable {
    device: Arc<dyn BlockRead>,
    token: CancellationToken,
}

impl Cancellable {
    pub(crate) fn new(device: Arc<dyn BlockRead>, token: CancellationToken) -> Self {
        Self { device, token }
    }
}

impl BlockRead for Cancellable {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_cancelled(self.token.flow())?;
        self.device.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_cancelled(self.token.flow())?;
        self.device.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        check_cancelled(self.token.flow())?;
        self.device.stored_at(offset)
    }

    fn block_size(&self) -> u32 {
        self.device.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        if !self.token.is_cancelled() {
            self.device.will_need(offset, len_bytes);
        }
    }
}
