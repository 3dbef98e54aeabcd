//! Stopping long work from another thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_block::{BlockRead, Extent, Result, go_on};

/// A request to stop, shared by who works and who may ask for it.
///
/// A disk that is only read, and was opened [with it](crate::DiskOptions::cancellation), answers every read with
/// [`Cancelled`](crate::ErrorKind::Cancelled) after [`cancel`](Self::cancel), so that any work on it ends: a walk, an
/// inspection, a check, a copy to the host. A disk that is written goes on, because what was begun there must be ended
/// or undone: callbacks of progress answer with [`flow`](Self::flow), and the work stops between two of its steps.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Returns a token of its own, which nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks all work that has this token, or a clone of it, to stop. There is no way back.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the answer for a callback of progress: whether to go on.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// A device that can be read until its token is cancelled.
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
        go_on(self.token.flow())?;
        self.device.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        go_on(self.token.flow())?;
        self.device.extent_at(offset)
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
