//! The threads of all devices of this process.

use std::sync::OnceLock;

use diskfs_block::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Handle, Runtime};

/// The number of threads that receive and decrypt.
const THREADS: usize = 2;

/// Returns the runtime of all devices, which is started by the first one.
pub(crate) fn handle() -> Result<Handle> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(THREADS)
            .thread_name("diskfs-objects");
        builder.enable_all().build().map_err(|e| e.to_string())
    });
    match runtime {
        Ok(runtime) => Ok(runtime.handle().clone()),
        Err(reason) => {
            let reason = format!("cannot start threads: {reason}");
            Err(Error::new(ErrorKind::Io, reason))
        }
    }
}

/// Runs a future to its end. The caller may be a thread of another runtime.
pub(crate) fn wait<T: Send + 'static>(
    future: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (done, waiting) = std::sync::mpsc::channel();
    handle()?.spawn(async move {
        let _ = done.send(future.await);
    });
    let ended = |_| Err(Error::new(ErrorKind::Io, "a request panicked"));
    waiting.recv().unwrap_or_else(ended)
}
