//! The runtime of a device, which the threads that wait for answers drive themselves.

use std::fmt;
use std::io;
use std::time::Instant;

use tokio::runtime::{Handle, Runtime};

/// The runtime of a device. It has no thread: a thread that waits for an answer reads the
/// connections meanwhile, so that no other thread has to wake it. If several wait, one of them
/// reads for all.
pub(super) struct Driver(Option<Runtime>);

impl Driver {
    pub(super) fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(4)
            .thread_name("diskfs-nbd-client")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Waits for a future, and drives the connections meanwhile.
    pub(super) fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> Option<T> {
        let runtime = self.0.as_ref()?;
        if Handle::try_current().is_err() {
            return Some(runtime.block_on(future));
        }
        // A thread of another runtime must not drive this one.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new();
            let waiting = thread.spawn_scoped(scope, || runtime.block_on(future));
            waiting.ok()?.join().ok()
        })
    }

    /// Waits for a future until a point in time.
    pub(super) fn wait_until<T: Send>(
        &self,
        deadline: Instant,
        future: impl Future<Output = T> + Send,
    ) -> Option<T> {
        let waited = async { tokio::time::timeout_at(deadline.into(), future).await.ok() };
        self.wait(waited).flatten()
    }

    /// Notices what has happened to the connections while nobody waited.
    pub(super) fn catch_up(&self) {
        self.wait(async {
            // The first turn polls the sockets, the second one runs their tasks.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        });
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Dropping it otherwise would wait, which a task of another runtime must not.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}
