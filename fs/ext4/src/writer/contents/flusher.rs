//! The thread that writes back contents that have been kept in memory for a while.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::writer::Core;

/// Starts the write-back thread. It ends when writing stops.
///
/// # Errors
/// `Io` if the host cannot start a thread.
pub(crate) fn start_writing_back(core: &Arc<Core>, interval: Duration) -> Result<JoinHandle<()>> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("ext4-flush".to_owned());
    thread
        .spawn(move || run(&core, interval))
        .map_err(|e| Error::new(ErrorKind::Io, "cannot start the write-back thread").with_source(e))
}

fn run(core: &Core, interval: Duration) {
    while !core.transactions.wait_for_end(interval) {
        core.delayed.age_emptied();
        if let Err(e) = core.write_back_older_than(interval) {
            // The data is still kept, and the next sync reports the error.
            tracing::warn!("cannot write back file contents: {e}");
        }
    }
}
